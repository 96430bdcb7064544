package record

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

// signals writes the records of the process at a signal.
type signals struct {
	received chan os.Signal
	ended    chan struct{}
}

var signalNames = map[string]syscall.Signal{"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "HUP": syscall.SIGHUP,
	"WINCH": syscall.SIGWINCH}

// notify returns nil if no signal is wanted.
func notify(name, folder string) *signals {
	number, _ := strconv.Atoi(name)
	which := cmp.Or(signalNames[name], syscall.Signal(number))
	if which == 0 {
		return nil
	}
	s := &signals{make(chan os.Signal, 1), make(chan struct{})}
	signal.Notify(s.received, which)
	go func() {
		defer close(s.ended)
		for range s.received {
			dump(folder)
		}
	}()
	return s
}

func (s *signals) close() {
	if s != nil {
		signal.Stop(s.received)
		close(s.received)
		<-s.ended
	}
}

// dump writes the records and stacks to the log, and with a folder as files: text, JSON with stacks, and PyTorch's.
func dump(folder string) {
	p := Here()
	var text bytes.Buffer
	_ = writeText(&text, p)
	slog.Warn("the records of this process, as a signal has asked for them:\n" + text.String())
	if folder == "" {
		slog.Warn("the stacks of this process's goroutines:\n" + string(stacks()))
		return
	}
	write := func(kind, format string) error {
		var b bytes.Buffer
		if err := Write(&b, p, format); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, fmt.Sprintf("goccl-dump-%d.%s", p.PID, kind)), b.Bytes(), 0o600)
	}
	if err := cmp.Or(write("txt", "text"), write("json", "stack"), WriteTorch(folder, p)); err != nil {
		slog.Warn("the records could not be written", "err", err, "folder", folder)
	}
}
