package main

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccl/goccl/internal/driver/nvrtc"
)

// image is an output on its way from a worker.
type image struct {
	File string
	SM   int
	PTX  bool
	Data []byte
}

// running bounds the workers: one process for each processor, because NVRTC holds one lock over all
// compilations of a process.
var running = make(chan struct{}, runtime.GOMAXPROCS(0))

// compile makes the images of the given architectures side by side.
func (g *group) compile(archs []architecture) ([]output, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	parts := make([][]output, len(archs))
	errs := make([]error, len(archs))
	var wg sync.WaitGroup
	for i, a := range archs {
		wg.Go(func() {
			running <- struct{}{}
			defer func() { <-running }()
			parts[i], errs[i] = g.compileApart(self, a)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err // the first: the others most likely say the same
		}
	}
	return slices.Concat(parts...), nil
}

// compileApart makes the images of one architecture in a worker.
func (g *group) compileApart(self string, a architecture) ([]output, error) {
	var images, failure bytes.Buffer
	cmd := exec.Command(self, "-worker", "-root", filepath.Dir(g.dir), "-group", g.name, "-arch", strconv.Itoa(a.sm))
	cmd.Stdout, cmd.Stderr = &images, &failure
	if err := cmd.Run(); err != nil {
		if failure.Len() > 0 {
			return nil, errors.New(strings.TrimPrefix(strings.TrimSpace(failure.String()), errorPrefix))
		}
		return nil, fmt.Errorf("%s for sm_%d: %w", g.name, a.sm, err)
	}
	var list []image
	if err := gob.NewDecoder(&images).Decode(&list); err != nil {
		return nil, fmt.Errorf("%s for sm_%d: what the worker wrote: %w", g.name, a.sm, err)
	}
	outs := make([]output, len(list))
	for i, m := range list {
		outs[i] = output{file: m.File, sm: m.SM, ptx: m.PTX, data: m.Data}
	}
	return outs, nil
}

// work is the other side of compileApart.
func work(lib *nvrtc.Library, groups []*group, cfg config) error {
	g := slices.IndexFunc(groups, func(g *group) bool { return g.name == cfg.group })
	a := slices.IndexFunc(architectures, func(a architecture) bool { return a.sm == cfg.arch })
	if g < 0 || a < 0 {
		return fmt.Errorf("worker: no group %q or no architecture %d", cfg.group, cfg.arch)
	}
	outs, err := groups[g].compileFor(lib, architectures[a])
	if err != nil {
		return err
	}
	list := make([]image, len(outs))
	for i, o := range outs {
		list[i] = image{File: o.file, SM: o.sm, PTX: o.ptx, Data: o.data}
	}
	return gob.NewEncoder(os.Stdout).Encode(list)
}
