// Command communicator measures what a communicator of goccl costs beside its collectives, one process per GPU: how long it takes to come up, how much GPU
// memory it holds, and the CPU time and the Go allocations of an eager call. Beside each figure stands its target, where there is one.
//
//	communicator -json FILE            all GPUs of this host
//	communicator -device host          the same calls on the host device, without targets
//
// Under a launcher (goccl run, mpirun, torchrun, srun) each process is one rank. Every wait is bounded; -timeout bounds the whole. The exit status is 0
// when everything was measured, whether or not targets are met.
package main

import (
	"flag"
	"time"

	"github.com/goccl/goccl/bench/internal/ranks"
)

// started is when this process began to run Go.
var started = time.Now()

// options are the flags.
type options struct{ ranks.Options }

func main() {
	var o options
	o.Flags()
	flag.Parse()
	ranks.Exit("communicator", o.Run(o.rank))
}
