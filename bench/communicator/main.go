// Command communicator measures the costs of a goccl communicator outside of collectives, one process per GPU: the time
// to set it up, the GPU memory that it holds, and the CPU time and the Go allocations of an eager call. Each figure is
// printed with its target, if it has one.
//
//	communicator -json FILE            all GPUs of this host
//	communicator -device host          the same calls on the host device, without targets
//
// Under a launcher (goccl run, mpirun, torchrun, srun) each process is one rank. Every wait is bounded; -timeout bounds
// the whole run. The exit status is 0 when every measurement succeeds, whether or not targets are met.
package main

import (
	"flag"
	"time"

	"github.com/goccl/goccl/bench/internal/ranks"
)

// started is the time at which this process began to run Go.
var started = time.Now()

// options are the flags.
type options struct{ ranks.Options }

func main() {
	var o options
	o.Flags()
	flag.Parse()
	ranks.Exit("communicator", o.Run(o.rank))
}
