package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Check returns an error if Save could not write to path. whole reports whether Save puts a new file in the place of an
// old one, so that readers see one or the other: it does so for regular files and new ones. Everything else, such as
// links, devices and pipes, is written to in place. "-" and /dev/stdout are standard output.
func Check(path string) (whole bool, err error) {
	if isStdout(path) {
		return false, nil
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return false, fmt.Errorf("%s is a directory: name a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		if info, err = os.Stat(path); err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory: name a file in it", path)
		}
		return false, err
	case err != nil && !os.IsNotExist(err):
		return false, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return false, fmt.Errorf("%s cannot be written: %w", path, err)
	}
	_ = f.Close()
	return true, os.Remove(f.Name())
}

// isStdout: to open /dev/stdout would cut off a file that it is redirected to.
func isStdout(path string) bool { return path == "-" || path == "/dev/stdout" }

// Save writes data to path, see Check; stdout is for "-".
func Save(path string, data []byte, stdout io.Writer) (err error) {
	if isStdout(path) {
		_, err = stdout.Write(data)
		return err
	}
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		if _, err = f.Write(data); err != nil {
			_ = f.Close()
			return err
		}
		return f.Close()
	}
	mode := fs.FileMode(0o644)
	if err == nil {
		mode = info.Mode().Perm()
	}
	return Replace(path, data, mode)
}

// Replace puts a new file at path, so that readers see the old one or the whole new one.
func Replace(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
