package launch

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// maxLine is the length at which a line is split.
const maxLine = 64 << 10

// copyLines copies r to w until r ends, each line in one write with the prefix. It keeps reading when a write fails,
// because the rank would block otherwise.
func copyLines(w io.Writer, mu *sync.Mutex, prefix string, r io.Reader) {
	in := bufio.NewReaderSize(r, maxLine)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(part) > 0 {
			line = append(append(line[:0], prefix...), part...)
			if part[len(part)-1] != '\n' {
				line = append(line, '\n')
			}
			mu.Lock()
			_, _ = w.Write(line)
			mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
