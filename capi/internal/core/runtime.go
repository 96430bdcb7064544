package core

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/setting"
)

// prepare configures the Go runtime as a guest of a C process.
var prepare = sync.OnceFunc(func() {
	// With GPUs, Go threads only enqueue, and leave the cores to the program; see allCores.
	runtime.GOMAXPROCS(min(4, runtime.GOMAXPROCS(0)))
	env := setting.Lenient()
	if env.GOGC == "" {
		debug.SetGCPercent(400)
	}
	slog.SetDefault(slog.New(logger(env.Debug, env.DebugFile)))
})

// warnOfUnread logs one line per process about NCCL's variables that have no effect.
var warnOfUnread = sync.OnceFunc(func() {
	if names := setting.Unread(setting.Environ()); names != nil {
		slog.Warn("NCCL's variables that goccl does not read are set; docs/environment.md says what takes their place",
			"variables", strings.Join(names, " "))
	}
})

// allCores undoes that limit: on the host device Go threads execute the collectives.
var allCores = sync.OnceFunc(runtime.SetDefaultGOMAXPROCS)

// Prepare runs prepare once, before all other functions of the ABI.
func Prepare() { prepare() }

// logger returns the handler that GOCCL_DEBUG (or NCCL_DEBUG) and NCCL_DEBUG_FILE configure. By default it logs
// nothing, since errors carry texts.
func logger(level, path string) slog.Handler {
	var at slog.Level
	switch strings.ToUpper(level) {
	case "WARN":
		at = slog.LevelWarn
	case "INFO", "ABORT":
		at = slog.LevelInfo
	case "TRACE", "DEBUG":
		at = slog.LevelDebug
	default: // also VERSION: the NCCL ABI itself prints the version
		return slog.DiscardHandler
	}
	out := io.Writer(os.Stderr)
	if path != "" {
		if f, err := os.OpenFile(debugFile(path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
			out = f
		} else {
			fmt.Fprintf(os.Stderr, "goccl: NCCL_DEBUG_FILE: %v: writing to stderr\n", err)
		}
	}
	h := slog.NewTextHandler(out, &slog.HandlerOptions{Level: at})
	return h.WithAttrs([]slog.Attr{slog.Int("pid", os.Getpid())})
}

// debugFile replaces %h by the host name, %p by the process id and %% by %.
func debugFile(path string) string {
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return strings.NewReplacer("%h", name, "%p", fmt.Sprint(os.Getpid()), "%%", "%").Replace(path)
}

func Records(format string) ([]byte, error) {
	var b bytes.Buffer
	if err := goccl.WriteRecords(&b, format); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	return b.Bytes(), nil
}
