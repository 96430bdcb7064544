package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// maxLine is where a line without an end is broken.
const maxLine = 64 << 10

// linePrefix is "[3] ", padded so that all ranks' lines start in one column.
func linePrefix(rank, n int) string {
	return fmt.Sprintf("[%*d] ", len(strconv.Itoa(n-1)), rank)
}

// copyLines passes r on to w, each line in one write behind prefix, until r ends. A writer that fails does not stop the reading, which would
// block the rank.
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
