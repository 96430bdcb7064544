package core

import (
	"log/slog"
	"time"

	"github.com/goccl/goccl"
)

// announce logs one line about a communicator that has been set up.
func (c *comm) announce(inner *goccl.Comm, took time.Duration) {
	slog.Info("communicator is set up", "name", c.cfg.Name, "rank", inner.Rank(), "size", inner.WorldSize(), "device",
		inner.Device().ID().String(), "table", inner.Table(),
		"took", took.Round(10*time.Microsecond))
}
