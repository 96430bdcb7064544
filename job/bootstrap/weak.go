package bootstrap

import (
	"log/slog"
	"sync"
)

var weakOnce sync.Once

// warnWeak warns once per process that the ranks' secret can be derived by others.
func warnWeak(log *slog.Logger) {
	weakOnce.Do(func() {
		log.Warn("bootstrap: ranks join by address without GOCCL_SECRET: any process that can reach the address can join " +
			"the job or impersonate a rank; " +
			"set GOCCL_SECRET to the same random text on all ranks")
	})
}
