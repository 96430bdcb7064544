package ranks

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/launch"
)

// Wait bounds one step: a barrier, or a kernel.
const Wait = 30 * time.Second

// Most is the largest number of ranks.
const Most = 8

// Options are the flags that all measurements have.
type Options struct {
	Device  string // cuda or host
	Ranks   int    // to start here; 0: one per GPU, 2 on the host device
	JSON    string // file for the results
	Timeout time.Duration
}

// Flags declares the options as flags of the program.
func (o *Options) Flags() {
	flag.StringVar(&o.Device, "device", "cuda", "cuda or host")
	flag.IntVar(&o.Ranks, "ranks", 0, "ranks to start here; 0: one per GPU, 2 on the host device")
	flag.StringVar(&o.JSON, "json", "", "file for the results")
	flag.DurationVar(&o.Timeout, "timeout", 3*time.Minute, "bound on the whole measurement")
}

// Run runs one rank under a launcher; otherwise it starts the ranks, which are this program with the same arguments.
func (o *Options) Run(rank func(ctx context.Context, env bootstrap.Env) error) error {
	if flag.NArg() > 0 || o.Device != "cuda" && o.Device != "host" || o.Timeout <= 0 {
		return errors.New("-device must be cuda or host, -timeout positive, and there are no arguments")
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.Timeout,
		fmt.Errorf("not done after %v (-timeout)", o.Timeout))
	defer cancel()
	env, err := bootstrap.FromEnv()
	if err == nil {
		if env.WorldSize < 2 || env.WorldSize > Most {
			return fmt.Errorf("started as %d ranks: start 2 to %d", env.WorldSize, Most)
		}
		return rank(ctx, env)
	}
	if !errors.Is(err, bootstrap.ErrNoLauncher) {
		return err
	}
	n := o.Ranks
	if o.Device == "cuda" {
		gpus, err := cuda.Count()
		if err != nil {
			return fmt.Errorf("%w: -device host needs none", err)
		}
		if n == 0 {
			n = min(gpus, Most)
		}
		if gpus < n || n < 2 {
			return fmt.Errorf("%d ranks need a GPU each, at least two, and there are %d: -device host needs none", n,
				gpus)
		}
	} else if n == 0 {
		n = 2
	}
	if n < 2 || n > Most {
		return fmt.Errorf("-ranks %d: choose 2 to %d", n, Most)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return launch.Run(ctx, launch.Options{N: n, Program: append([]string{self}, os.Args[1:]...)})
}

// Exit ends the program name with the result of Run. A rank that failed has already printed its error.
func Exit(name string, err error) {
	var e *launch.ExitError
	switch {
	case err == nil:
		return
	case errors.As(err, &e):
		os.Exit(e.ExitCode())
	}
	fmt.Fprintln(os.Stderr, name+":", err)
	os.Exit(1)
}

// Open opens the device of a rank.
func (o *Options) Open(b bootstrap.Bootstrap) (dev device.Device, err error) {
	local := bootstrap.LocalRank(b)
	if o.Device == "host" {
		dev, err = host.Open(local)
	} else {
		dev, err = cuda.Open(local)
	}
	if err != nil {
		return nil, fmt.Errorf("rank %d: %w", b.Rank(), err)
	}
	return dev, nil
}

// Group is the communication among the ranks.
type Group struct{ bootstrap.Bootstrap }

// Meet is a barrier of all ranks.
func (g Group) Meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Wait)
	defer cancel()
	return g.Barrier(ctx)
}

// All gathers a number of each rank.
func (g Group) All(ctx context.Context, mine float64) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, Wait)
	defer cancel()
	blobs, err := g.AllGather(ctx, binary.LittleEndian.AppendUint64(nil, math.Float64bits(mine)))
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(blobs))
	for i, b := range blobs {
		if len(b) != 8 {
			return nil, fmt.Errorf("rank %d sent %d bytes for a number: start the same program everywhere", i, len(b))
		}
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return values, nil
}
