// Package mockcuda puts a mock libcuda under the tests of this module, so that code which needs the driver is tested
// where there is no GPU. The mock is internal/driver/testdata/mockcuda.c and its parts; mockcuda.c lists its features
// and its environment variables.
package mockcuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/goccl/goccl/internal/setting"
)

// Env names the library that internal/driver opens.
const Env = "GOCCL_CUDA_LIB"

// CountAttribute is the device attribute of the mock that counts live objects; add one of the kinds below.
const CountAttribute = 7000

// The kinds of objects that the mock counts.
const (
	Regions = iota
	Streams
	Events
	Graphs
	Modules
	VMMHandles
	ContextRefs
	NumCounts
)

// Setup is for TestMain, before anything uses the driver. Where there is a real NVIDIA driver, or Env is set, it
// changes nothing. Otherwise it builds the mock with gcc and points Env at it; children inherit that. It reports
// whether tests run on a mock. The error says why there is none (no gcc, no sources): tests then skip with
// cuda.Available's reason. Call cleanup at the end.
func Setup() (mock bool, cleanup func(), err error) {
	cleanup = func() {}
	if lib := setting.Get(Env); lib != "" {
		return filepath.Base(lib) == "libmockcuda.so", cleanup, nil
	}
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		return false, cleanup, nil
	}
	dir, err := os.MkdirTemp("", "goccl-mockcuda-")
	if err != nil {
		return false, cleanup, err
	}
	cleanup = func() { _ = os.RemoveAll(dir) }
	lib := filepath.Join(dir, "libmockcuda.so")
	if err := Build(lib); err != nil {
		cleanup()
		return false, func() {}, err
	}
	return true, cleanup, os.Setenv(Env, lib)
}

// source is mockcuda.c in the module around the working directory, which a test sets to its package's folder.
func source() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("mockcuda: %w", err)
	}
	for {
		if src := filepath.Join(dir, "internal", "driver", "testdata", "mockcuda.c"); exists(src) {
			return src, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("mockcuda: no sources here: the test does not run in goccl's tree")
		}
		dir = up
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Build compiles the mock to lib.
func Build(lib string) error {
	src, err := source()
	if err != nil {
		return err
	}
	parts, err := filepath.Glob(filepath.Join(filepath.Dir(src), "mockcuda", "*.c"))
	if err != nil || len(parts) == 0 {
		return fmt.Errorf("mockcuda: no parts beside %s: %w", src, err)
	}
	// go test gives no cached result when one of these has changed. The cache only tracks files that the test opens,
	// not files that gcc reads.
	for _, f := range append(parts, src) {
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("mockcuda: %w", err)
		}
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return fmt.Errorf("mockcuda: %w: install gcc to test the CUDA device without a GPU", err)
	}
	if out, err := exec.Command(cc, "-O1", "-g", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", lib, src,
		"-lpthread").CombinedOutput(); err != nil {
		return fmt.Errorf("mockcuda: %w\n%s", err, out)
	}
	return nil
}
