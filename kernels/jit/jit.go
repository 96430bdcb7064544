package jit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/goccl/goccl/internal/driver/nvrtc"
	"github.com/goccl/goccl/kernels"
)

// ErrUnavailable means that there is no libnvrtc. It is internal/driver/nvrtc's error of that name.
var ErrUnavailable = nvrtc.ErrUnavailable

// Request is one source to compile for one device.
type Request struct {
	Source       string
	Name         string            // file name in diagnostics; "kernel.cu" when empty
	Major, Minor int               // compute capability of the device
	Headers      map[string]string // more headers, by include name; they may not replace goccl's
	Options      []string          // more compiler options, like "-DN=8"; -arch, -std and CUDA's headers are set
}

// Image is a compiled module, ready to load. Data must not be written to.
type Image struct {
	Data []byte
	PTX  bool   // for a device unknown to the compiler: the driver compiles Data
	Log  string // warnings; empty if the image came from the disk
}

// Compiler compiles sources and caches the images.
type Compiler struct {
	lib  *nvrtc.Library
	cuda []string   // folders of CUDA's headers
	disk *diskCache // nil: memory only

	mu    sync.Mutex
	cache map[string]*entry
}

// entry is one compilation, which runs once even if several goroutines request it.
type entry struct {
	once  sync.Once
	image Image
	err   error
}

// New opens the first libnvrtc that it finds in $GOCCL_NVRTC, the given files and folders (such as site-packages),
// $CUDA_HOME and the system. It looks for CUDA's headers beside the library, then in the same places. The error wraps
// ErrUnavailable.
func New(dirs ...string) (*Compiler, error) {
	lib, err := nvrtc.Open(dirs...)
	if err != nil {
		return nil, err
	}
	return &Compiler{
		lib: lib, cuda: nvrtc.IncludeDirs(lib.Path(), lib.Version().Major, dirs...),
		disk: openDiskCache(), cache: make(map[string]*entry),
	}, nil
}

// Version returns the exact version of the compiler.
func (c *Compiler) Version() string { return c.lib.Version().String() }

// Compile returns the image of r, from the cache if possible. If the compiler refuses the source, the error is a
// *nvrtc.CompileError; its %+v is the whole log. Compile blocks for the compilation, typically 0.1 to 5 s.
func (c *Compiler) Compile(r Request) (Image, error) {
	p, ptx, err := c.program(r)
	if err != nil {
		return Image{}, err
	}
	key := c.key(p, included(r.Source, r.Options))
	c.mu.Lock()
	e := c.cache[key]
	if e == nil {
		e = new(entry)
		c.cache[key] = e
	}
	c.mu.Unlock()
	e.once.Do(func() {
		e.image, e.err = c.make(p, ptx, key)
	})
	return e.image, e.err
}

func (c *Compiler) make(p nvrtc.Program, ptx bool, key string) (Image, error) {
	if data := c.disk.load(key); data != nil {
		return Image{Data: data, PTX: ptx}, nil
	}
	res, err := c.lib.Compile(p)
	if err != nil {
		var refused *nvrtc.CompileError
		if errors.As(err, &refused) && len(c.cuda) == 0 && strings.Contains(refused.Log, "open source file") {
			refused.Log += fmt.Sprintf(
				"CUDA's headers are not beside %s: install the PyPI package %s of its release, or set CUDA_HOME\n",
				c.lib.Path(), nvrtc.HeadersPackage(c.lib.Version().Major))
		}
		return Image{}, err
	}
	img := Image{Data: res.CUBIN, PTX: ptx, Log: res.Log}
	if ptx {
		img.Data = res.PTX
	}
	c.disk.store(key, img.Data)
	return img, nil
}

// program turns a request into the compiler's input, and reports whether to make PTX, which a device newer than the
// compiler needs.
func (c *Compiler) program(r Request) (p nvrtc.Program, ptx bool, err error) {
	if r.Source == "" {
		return p, false, errors.New("jit: the source is empty")
	}
	for _, o := range r.Options {
		if name := strings.TrimLeft(o, "-"); strings.HasPrefix(name, "arch") || strings.HasPrefix(name, "gpu-architecture") {
			return p, false, fmt.Errorf("jit: option %q: the architecture is given by Major and Minor", o)
		}
	}
	headers := kernels.Headers()
	maps.Copy(headers, libc())
	for name, text := range r.Headers {
		if _, taken := headers[name]; taken {
			return p, false, fmt.Errorf("jit: header %q would replace goccl's own: rename it", name)
		}
		headers[name] = text
	}
	arch, ptx, err := chooseArch(c.lib.Archs(), r.Major*10+r.Minor)
	if err != nil {
		return p, false, err
	}
	name := cmp.Or(r.Name, "kernel.cu")
	options := []string{"-arch=" + arch}
	if !slices.ContainsFunc(r.Options, func(o string) bool { return strings.HasPrefix(strings.TrimLeft(o, "-"), "std") }) {
		options = append(options, "-std=c++17")
	}
	options = append(options, r.Options...)
	for _, dir := range c.cuda {
		options = append(options, "-I"+dir)
	}
	return nvrtc.Program{Source: r.Source, Name: name, Headers: headers, Options: options}, ptx, nil
}

// chooseArch picks the device's architecture, else the closest older one with the same major version, as a cubin; else
// PTX of the closest older one.
func chooseArch(known []int, cc int) (arch string, ptx bool, err error) {
	best := 0
	for _, a := range known {
		if a <= cc && a > best {
			best = a
		}
	}
	switch {
	case best == 0:
		return "", false, fmt.Errorf(
			"jit: the compiler knows no architecture as old as compute capability %d.%d (it knows %v)",
			cc/10, cc%10, known)
	case best/10 == cc/10:
		return fmt.Sprintf("sm_%d", best), false, nil
	}
	return fmt.Sprintf("compute_%d", best), true, nil
}

// key is the hash of all inputs of the output. CUDA's headers are not hashed: the compiler's release determines them.
func (c *Compiler) key(p nvrtc.Program, files map[string]string) string {
	h := sha256.New()
	part := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	part(c.Version())
	part(p.Name)
	part(p.Source)
	for _, o := range p.Options {
		part(o)
	}
	for _, texts := range []map[string]string{p.Headers, files} {
		part("headers")
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			part(name)
			part(texts[name])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
