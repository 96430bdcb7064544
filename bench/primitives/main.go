// Command primitives measures what the primitives of goccl cost between GPUs, one process per GPU: signals, puts by load and store and by bulk copies,
// all-to-all pushes, puts through the proxy, and the set-up of a full mesh. Beside each figure stands its target, where there is one.
//
//	primitives -json FILE            all GPUs of this host
//	primitives -device host          the same calls on the host device, without targets
//
// Under a launcher (goccl run, mpirun, torchrun, srun) each process is one rank. Every wait is bounded; -timeout bounds the whole. The exit status is 0
// when everything was measured, whether or not targets are met.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/launch"
)

// started is when this process began to run Go.
var started = time.Now()

// options are the flags.
type options struct {
	device  string
	ranks   int
	bytes   int64
	json    string
	timeout time.Duration
}

const maxRanks = 8

func main() {
	var o options
	flag.StringVar(&o.device, "device", "cuda", "cuda or host")
	flag.IntVar(&o.ranks, "ranks", 0, "ranks to start here; 0: one per GPU, 2 on the host device")
	flag.Int64Var(&o.bytes, "bytes", 0, "bytes of the large transfers; 0: 1 GiB, 16 MiB on the host device")
	flag.StringVar(&o.json, "json", "", "file for the results")
	flag.DurationVar(&o.timeout, "timeout", 3*time.Minute, "bound on the whole measurement")
	flag.Parse()
	err := o.run()
	if err == nil {
		return
	}
	var e *launch.ExitError
	if errors.As(err, &e) { // the rank has said why
		os.Exit(e.ExitCode())
	}
	fmt.Fprintln(os.Stderr, "primitives:", err)
	os.Exit(1)
}

// run is one rank under a launcher; otherwise it starts the ranks.
func (o *options) run() error {
	if flag.NArg() > 0 || o.device != "cuda" && o.device != "host" || o.bytes < 0 || o.bytes%(16*maxRanks) != 0 || o.timeout <= 0 {
		return fmt.Errorf("-device is cuda or host, -bytes a multiple of %d, -timeout positive, and nothing else is taken", 16*maxRanks)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.timeout, fmt.Errorf("not done after %v (-timeout)", o.timeout))
	defer cancel()
	env, err := bootstrap.FromEnv()
	if err == nil {
		return o.rank(ctx, env)
	}
	if !errors.Is(err, bootstrap.ErrNoLauncher) {
		return err
	}
	n := o.ranks
	if o.device == "cuda" {
		gpus, err := cuda.Count()
		if err != nil {
			return fmt.Errorf("%w; -device host measures without one", err)
		}
		if n == 0 {
			n = min(gpus, maxRanks)
		}
		if gpus < n || n < 2 {
			return fmt.Errorf("%d ranks need as many GPUs, and at least two; there are %d; -device host measures without any", n, gpus)
		}
	} else if n == 0 {
		n = 2
	}
	if n < 2 || n > maxRanks {
		return fmt.Errorf("-ranks %d: from 2 to %d", n, maxRanks)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return launch.Run(ctx, launch.Options{N: n, Program: append([]string{self}, os.Args[1:]...)})
}
