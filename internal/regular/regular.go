// Package regular reads and writes files whose names are user input: reading does not block and has a size limit, and
// writing replaces nothing except regular files.
package regular

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Read is os.ReadFile for a regular file of at most limit bytes. It refuses a pipe, a socket or a device, which may
// block or never end.
func Read(path string, limit int64) ([]byte, error) {
	// otherwise the open of a pipe without a writer would block
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder: name a file in it", path)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (mode %v): write its contents to a file first", path,
			info.Mode().Type())
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes, the limit for such a file", path, limit)
	}
	return data, nil
}
