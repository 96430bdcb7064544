package main

import (
	"fmt"
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/setting"
)

func terminal(s *streams) bool {
	f, ok := s.out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// colored reports whether the output takes colours.
func colored(s *streams) bool { return terminal(s) && !setting.Lenient().NoColor }

// width is the number of columns of the terminal; 0: not known.
func width(s *streams) int {
	if f, ok := s.out.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			return int(size.Col)
		}
	}
	return 0
}

// fullScreen takes the terminal's other screen and returns the keys that are pressed, and what gives the screen back.
func fullScreen(s *streams) (<-chan byte, func()) {
	fmt.Fprint(s.out, "\x1b[?1049h\x1b[?25l")
	restore := func() { fmt.Fprint(s.out, "\x1b[?25h\x1b[?1049l") }
	pressed := make(chan byte)
	before, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS)
	if err != nil { // the input is no terminal
		return pressed, restore
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO
	if unix.IoctlSetTermios(int(os.Stdin.Fd()), unix.TCSETS, &now) != nil {
		return pressed, restore
	}
	go func() { // until the program ends: a read of a terminal cannot be cancelled
		var b [1]byte
		for {
			if n, err := os.Stdin.Read(b[:]); n == 0 || err != nil {
				return
			}
			pressed <- b[0]
		}
	}()
	return pressed, func() {
		_ = unix.IoctlSetTermios(int(os.Stdin.Fd()), unix.TCSETS, before)
		restore()
	}
}

// cut shortens a line to the columns, and keeps its escape sequences and its end. columns 0: the line as it is.
func cut(line []byte, columns int) []byte {
	var out []byte
	used := 0
	for i := 0; i < len(line); {
		n := 1
		switch {
		case line[i] == 0x1b:
			for i+n < len(line) && (line[i+n] < '@' || line[i+n] == '[') {
				n++
			}
			n = min(n+1, len(line)-i)
		case line[i] == '\n':
		default:
			_, n = utf8.DecodeRune(line[i:])
			if used++; columns > 0 && used > columns {
				i += n
				continue
			}
		}
		out = append(out, line[i:i+n]...)
		i += n
	}
	return out
}
