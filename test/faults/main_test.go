package faults_test

import (
	"testing"

	"github.com/goccl/goccl/test/commtest"
)

func TestMain(m *testing.M) {
	commtest.Main(m, map[string]func(*commtest.Process) error{
		"traffic": traffic, "wait": wait, "setup": setup, "replay": replay, "reuse": reuse, "paused": paused, "model": model,
		"restart": restart, "restarted": restarted, "splitting": splitting,
		"decoding": decoding,
	})
}
