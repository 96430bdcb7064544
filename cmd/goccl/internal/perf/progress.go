package perf

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/setting"
)

// Progress is one line on a terminal that is overwritten at most ten times a second. A nil one prints nothing.
type Progress struct {
	f     *os.File
	width int
	last  time.Time
	shown bool
}

// NewProgress shows progress on f; it is nil when f is not a terminal.
func NewProgress(f *os.File) *Progress {
	if f == nil || setting.Lenient().NoProgress {
		return nil
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	width := int(size.Col)
	if width == 0 { // the terminal does not report it
		width = 80
	}
	return &Progress{f: f, width: max(width, 20)}
}

// Show replaces the line.
func (p *Progress) Show(what string) {
	now := time.Now()
	if p == nil || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.shown = now, true
	if len(what) > p.width-3 {
		what = what[:p.width-3]
	}
	fmt.Fprintf(p.f, "\r\x1b[K%s …", what)
}

// Clear removes the line, before something else is printed.
func (p *Progress) Clear() {
	if p != nil && p.shown {
		p.shown = false
		fmt.Fprint(p.f, "\r\x1b[K")
	}
}
