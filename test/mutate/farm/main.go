// Farm runs the loops of mutate of all fuzz targets, on all cores, until each target has had a number of inputs or the
// time is over:
//
//	for p in PACKAGES; do go test -c -o DIR/$(echo $p | tr / .).test ./$p; done
//	farm -dir DIR -inputs 10000000 -for 5m -json fuzz.json
//
// A worker takes the target that has the fewest workers and runs it for some seconds with a fresh seed, so that
// cheap targets end first and the others get their cores. An input that fails ends its loop, counts as a failure and is
// in a log in DIR; so does a loop that does not end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"time"
)

func main() {
	var f farm
	workers := flag.Int("workers", runtime.NumCPU(), "loops at a time")
	limit := flag.Duration("for", 5*time.Minute, "when to end, whatever is missing")
	flag.StringVar(&f.dir, "dir", "build/parsers", "folder of test programs, PACKAGE.test with dots for slashes")
	flag.IntVar(&f.goal, "inputs", 10_000_000, "inputs of each target")
	flag.DurationVar(&f.turn, "turn", 5*time.Second, "how long a worker stays with a target")
	flag.StringVar(&f.json, "json", "", "write what was run to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := f.find(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var wait sync.WaitGroup
	for range *workers {
		wait.Go(func() { f.work(ctx) })
	}
	wait.Wait()
	if err := f.report(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if f.failed() {
		os.Exit(1)
	}
}
