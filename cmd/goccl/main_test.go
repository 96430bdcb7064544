package main

import (
	"context"
	"strings"
	"testing"

	"github.com/goccl/goccl/cmd/goccl/internal/query"
)

// A signal ends commands that compute: those that take no context at once, a search when it is told.
func TestSignalsEndComputations(t *testing.T) {
	for args, want := range map[string]bool{"plan build x": false, "plan check x": false, "plan simulate x": false,
		"plan fit x": false, "plan show x": false, "plan run x": true, "synth --collective=x --topo=x": true} {
		var c cli
		parser, err := newParser(&c)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.Parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got := takesContext(parsed.Selected()); got != want {
			t.Errorf("%s takes a context: %v", args, got)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	never := make(chan int)
	stop()
	if _, err := query.Ask(ctx, func() (int, error) { return <-never, nil }); err == nil {
		t.Error("a computation that never ends outlives its context")
	}
}
