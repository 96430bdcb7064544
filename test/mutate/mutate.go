// Package mutate runs the body of a fuzz target on many inputs in one process. Go's fuzzer spends 0.1 ms and more on
// each input, most of it beside the parser; a plain loop needs little more than the parser does.
//
//	func FuzzX(f *testing.F) {
//		f.Add([]byte("a seed"))
//		mutate.Fuzz(f, func(t *testing.T, b []byte) { … })
//	}
//
// Under `go test -fuzz` and plain `go test` this is f.Fuzz. `go test -run FuzzX -args -mutate.runs N` runs the seeds
// and N inputs that are mutated from them, in the order that -mutate.seed gives; -mutate.for ends the loop earlier.
// Nothing is learnt from coverage, so a loop of this kind is a supplement of the fuzzer. A body must not call t.Skip,
// which would end the loop. The command in ./farm runs the loops of all targets on all cores.
package mutate

import (
	"flag"
	"fmt"
	"reflect"
	"testing"
	"time"
)

var (
	wanted = flag.Int("mutate.runs", 0, "mutated inputs of each fuzz target that runs; 0: its seeds alone")
	seed   = flag.Uint64("mutate.seed", 1, "what they follow from")
	limit  = flag.Duration("mutate.for", 0, "how long the inputs of each target may take; 0: as long as they need")
)

// Loops reports whether Fuzz runs loops: a body may then keep costly objects for the inputs that follow.
func Loops() bool { return *wanted > 0 }

// Fuzz is f.Fuzz(body), or the loop.
func Fuzz(f *testing.F, body any) {
	f.Helper()
	runs := *wanted
	if runs <= 0 {
		f.Fuzz(body)
		return
	}
	// The seeds come one by one. Each has its share of the runs; seeds of testdata, which f does not count, get the
	// same share.
	share := (runs + max(1, seeds(f)) - 1) / max(1, seeds(f))
	m := newMutator(*seed)
	done, begin := 0, time.Now()
	late := func(seed int) bool { // the time is shared, too
		return *limit > 0 && time.Since(begin) > *limit*time.Duration(seed)/time.Duration(max(1, seeds(f)))
	}
	call := reflect.ValueOf(body)
	loop := func(t *testing.T, args []any) {
		defer func() {
			if t.Failed() || t.Skipped() {
				t.Logf("run %d of the loop, -mutate.seed %d, with %s", done, *seed, printed(m.input))
			}
		}()
		m.add(args)
		run := caller(call, t)
		for n := 0; n < share && !t.Failed() && !(n%16 == 0 && late(len(m.seeds))); n++ {
			run(m.next())
			done++
		}
	}
	switch body := body.(type) {
	case func(*testing.T, []byte):
		f.Fuzz(func(t *testing.T, b []byte) {
			body(t, b)
			loop(t, []any{b})
		})
	default:
		f.Fuzz(reflect.MakeFunc(call.Type(), func(in []reflect.Value) []reflect.Value {
			call.Call(in)
			var args []any
			for _, v := range in[1:] {
				args = append(args, v.Interface())
			}
			loop(in[0].Interface().(*testing.T), args)
			return nil
		}).Interface())
	}
	f.Cleanup(func() {
		fmt.Printf("%s: %d runs in %v\n", f.Name(), done, time.Since(begin).Round(time.Millisecond))
	})
}

// seeds is the number of f.Add's calls, at least 1.
func seeds(f *testing.F) int {
	if v := reflect.ValueOf(f).Elem().FieldByName("corpus"); v.Kind() == reflect.Slice {
		return max(1, v.Len())
	}
	return 1
}

// caller returns what calls the body.
func caller(body reflect.Value, t *testing.T) func(args []any) {
	if f, ok := body.Interface().(func(*testing.T, []byte)); ok {
		return func(args []any) { f(t, args[0].([]byte)) }
	}
	in := make([]reflect.Value, body.Type().NumIn())
	in[0] = reflect.ValueOf(t)
	return func(args []any) {
		for i, a := range args {
			in[i+1] = reflect.ValueOf(a)
		}
		body.Call(in)
	}
}

func printed(args []any) string {
	text := ""
	for _, a := range args {
		text += fmt.Sprintf(" %T(%#v)", a, a)
	}
	return text
}
