package bootstrap

import (
	"log/slog"
	"sync"
)

var weakOnce sync.Once

// warnWeak says once in a process that the ranks' secret is none.
func warnWeak(log *slog.Logger) {
	weakOnce.Do(func() {
		log.Warn("bootstrap: ranks join by address without GOCCL_SECRET: whoever can reach the address can join the job, or pose as one of its ranks; " +
			"set GOCCL_SECRET to the same random text on all ranks")
	})
}
