// Command primitives measures the cost of goccl's primitives between GPUs, one process per GPU: signals, puts by load
// and store and by bulk copies, all-to-all pushes, puts through the proxy, and the set-up of a full mesh. Each figure
// is printed with its target, if it has one.
//
//	primitives -json FILE            all GPUs of this host
//	primitives -device host          the same calls on the host device, without targets
//
// Under a launcher (goccl run, mpirun, torchrun, srun) each process is one rank. Every wait is bounded; -timeout bounds
// the whole run. The exit status is 0 when every measurement succeeds, whether or not targets are met.
package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/goccl/goccl/bench/internal/ranks"
)

// started is the time at which this process began to run Go.
var started = time.Now()

// options are the flags.
type options struct {
	ranks.Options
	bytes int64
}

func main() {
	var o options
	o.Flags()
	flag.Int64Var(&o.bytes, "bytes", 0, "bytes of the large transfers; 0: 1 GiB, 16 MiB on the host device")
	flag.Parse()
	ranks.Exit("primitives", o.run())
}

func (o *options) run() error {
	if o.bytes < 0 || o.bytes%(16*ranks.Most) != 0 {
		return fmt.Errorf("-bytes must be a multiple of %d", 16*ranks.Most)
	}
	return o.Run(o.rank)
}
