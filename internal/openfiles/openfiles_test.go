package openfiles

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExplain(t *testing.T) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	err := Explain(fmt.Errorf("open x: %w", os.NewSyscallError("openat", unix.EMFILE)))
	if !Exhausted(err) || !strings.Contains(err.Error(), fmt.Sprintf("may have %d open files", r.Cur)) ||
		!strings.Contains(err.Error(), "ulimit -n") {
		t.Error(err)
	}
	if again := Explain(fmt.Errorf("outer: %w", err)); strings.Count(again.Error(), "ulimit") != 1 {
		t.Error(again)
	}
	if err := Explain(unix.ENFILE); !Exhausted(err) || !strings.Contains(err.Error(), "fs.file-max") {
		t.Error(err)
	}
	other := errors.New("x")
	if Exhausted(other) || !errors.Is(Explain(other), other) || Explain(other).Error() != "x" || Explain(nil) != nil {
		t.Error("another error was changed")
	}
}

func TestShortage(t *testing.T) {
	var s Shortage
	if first, second := s.Lasts(unix.EMFILE), s.Lasts(unix.EMFILE); first || second {
		t.Error("it lasts from the first")
	}
	s.since = s.since.Add(-patience)
	if !s.Lasts(unix.EMFILE) {
		t.Error("it does not last")
	}
	if s.Lasts(nil) || s.Lasts(unix.EMFILE) {
		t.Error("it lasts though there was room in between")
	}
}
