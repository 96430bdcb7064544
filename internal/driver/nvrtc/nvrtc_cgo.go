//go:build cgo && linux

package nvrtc

//cu:nocgo fmt.Errorf("%w: this program was built without cgo", ErrUnavailable)

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

// The part of libnvrtc that goccl calls; its ABI has not changed since CUDA 11.1.
#define GOCCL_NVRTC(F) \
	F(int, nvrtcVersion, (int *major, int *minor)) \
	F(const char *, nvrtcGetErrorString, (int result)) \
	F(int, nvrtcGetNumSupportedArchs, (int *n)) \
	F(int, nvrtcGetSupportedArchs, (int *list)) \
	F(int, nvrtcCreateProgram, (void **prog, const char *src, const char *name, int n, const char *const *headers, \
	  const char *const *names)) \
	F(int, nvrtcDestroyProgram, (void **prog)) \
	F(int, nvrtcCompileProgram, (void *prog, int n, const char *const *options)) \
	F(int, nvrtcGetPTXSize, (void *prog, size_t *n)) \
	F(int, nvrtcGetPTX, (void *prog, char *out)) \
	F(int, nvrtcGetCUBINSize, (void *prog, size_t *n)) \
	F(int, nvrtcGetCUBIN, (void *prog, char *out)) \
	F(int, nvrtcGetProgramLogSize, (void *prog, size_t *n)) \
	F(int, nvrtcGetProgramLog, (void *prog, char *out))
#define FIELD(result, name, params) result(*name) params;
typedef struct { GOCCL_NVRTC(FIELD) } goccl_nvrtc;

// goccl_nvrtc_open fills t and returns NULL, or returns a text that says what failed (owned by libdl, copied at once by
// the caller).
static const char *goccl_nvrtc_open(const char *path, goccl_nvrtc *t) {
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) return dlerror();
#define SYM(result, name, params) \
	*(void **)&t->name = dlsym(h, #name); \
	if (!t->name) { dlclose(h); return "has no " #name; }
	GOCCL_NVRTC(SYM)
	return NULL;
}

// goccl_nvrtc_file is the file that the library was loaded from, or NULL.
static const char *goccl_nvrtc_file(goccl_nvrtc *t) {
	Dl_info info;
	return dladdr(*(void **)&t->nvrtcVersion, &info) ? info.dli_fname : NULL;
}

static int goccl_nvrtc_version(goccl_nvrtc *t, int *a, int *b) { return t->nvrtcVersion(a, b); }
static const char *goccl_nvrtc_error(goccl_nvrtc *t, int r) { return t->nvrtcGetErrorString(r); }
static int goccl_nvrtc_num_archs(goccl_nvrtc *t, int *n) { return t->nvrtcGetNumSupportedArchs(n); }
static int goccl_nvrtc_archs(goccl_nvrtc *t, int *list) { return t->nvrtcGetSupportedArchs(list); }
static int goccl_nvrtc_create(goccl_nvrtc *t, void **prog, char *src, char *name, int n, char **headers, char **names) {
	return t->nvrtcCreateProgram(prog, src, name, n, (const char *const *)headers, (const char *const *)names);
}
static void goccl_nvrtc_destroy(goccl_nvrtc *t, void **prog) { t->nvrtcDestroyProgram(prog); }
static int goccl_nvrtc_compile(goccl_nvrtc *t, void *prog, int n, char **options) {
	return t->nvrtcCompileProgram(prog, n, (const char *const *)options);
}

// what: 0 log, 1 PTX, 2 cubin.
static int goccl_nvrtc_size(goccl_nvrtc *t, void *prog, int what, size_t *n) {
	switch (what) {
	case 0: return t->nvrtcGetProgramLogSize(prog, n);
	case 1: return t->nvrtcGetPTXSize(prog, n);
	default: return t->nvrtcGetCUBINSize(prog, n);
	}
}
static int goccl_nvrtc_get(goccl_nvrtc *t, void *prog, int what, char *out) {
	switch (what) {
	case 0: return t->nvrtcGetProgramLog(prog, out);
	case 1: return t->nvrtcGetPTX(prog, out);
	default: return t->nvrtcGetCUBIN(prog, out);
	}
}
*/
import "C"

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// Library is an opened libnvrtc. It is immutable.
type Library struct {
	table   C.goccl_nvrtc
	path    string
	version Version
	archs   []int
}

// opened keeps one Library per path: a second dlopen would only return the same code.
var opened = struct {
	sync.Mutex
	byPath map[string]*Library
}{byPath: map[string]*Library{}}

// Open loads the first libnvrtc of Candidates(dirs...) that works. The error wraps ErrUnavailable.
func Open(dirs ...string) (*Library, error) {
	var tried []string
	for _, path := range Candidates(dirs...) {
		lib, err := openPath(path)
		if err == nil {
			return lib, nil
		}
		tried = append(tried, fmt.Sprintf("%s: %v", path, err))
	}
	if len(tried) == 0 {
		tried = []string{"no candidate file"}
	}
	return nil, fmt.Errorf("%w: install the PyPI package nvidia-cuda-nvrtc-cu12, or set GOCCL_NVRTC to the library or "+
		"CUDA_HOME to a toolkit (tried %s)", ErrUnavailable, strings.Join(tried, "; "))
}

func openPath(path string) (*Library, error) {
	opened.Lock()
	defer opened.Unlock()
	if lib := opened.byPath[path]; lib != nil {
		return lib, nil
	}
	lib := &Library{path: path}
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	if msg := C.goccl_nvrtc_open(cpath, &lib.table); msg != nil {
		return nil, fmt.Errorf("%s", C.GoString(msg))
	}
	if file := C.goccl_nvrtc_file(&lib.table); file != nil {
		if abs, err := filepath.Abs(C.GoString(file)); err == nil {
			lib.path = abs
		}
	}
	var major, minor, n C.int
	if rc := C.goccl_nvrtc_version(&lib.table, &major, &minor); rc != 0 {
		return nil, fmt.Errorf("nvrtcVersion: %s", lib.text(rc))
	}
	lib.version = Version{Major: int(major), Minor: int(minor)}
	if rc := C.goccl_nvrtc_num_archs(&lib.table, &n); rc != 0 || n <= 0 {
		return nil, fmt.Errorf("nvrtcGetNumSupportedArchs: %s", lib.text(rc))
	}
	list := make([]C.int, n)
	if rc := C.goccl_nvrtc_archs(&lib.table, &list[0]); rc != 0 {
		return nil, fmt.Errorf("nvrtcGetSupportedArchs: %s", lib.text(rc))
	}
	for _, a := range list {
		lib.archs = append(lib.archs, int(a))
	}
	slices.Sort(lib.archs)
	probe, err := lib.Compile(Program{Source: "", Name: "version.cu",
		Options: []string{fmt.Sprintf("-arch=compute_%d", lib.archs[0])}})
	if err != nil {
		return nil, err
	}
	lib.version.Build = buildOf(string(probe.PTX))
	opened.byPath[path] = lib
	return lib, nil
}

// Path is the file that was opened.
func (l *Library) Path() string { return l.path }

// Version is the compiler's release and build.
func (l *Library) Version() Version { return l.version }

// Archs lists the architectures the compiler knows, as 10*major+minor, ascending.
func (l *Library) Archs() []int { return slices.Clone(l.archs) }

func (l *Library) text(rc C.int) string { return C.GoString(C.goccl_nvrtc_error(&l.table, rc)) }

// Compile builds p. A refused program is a *CompileError. It blocks for the whole compilation, which cannot be
// interrupted.
func (l *Library) Compile(p Program) (Result, error) {
	var arena cArena
	defer arena.free()

	names := slices.Sorted(maps.Keys(p.Headers))
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = p.Headers[n]
	}
	fail := func(call string, rc C.int, log string) error {
		return &CompileError{Name: p.Name, Call: call, Code: int(rc), Reason: l.text(rc), Log: log}
	}

	var prog unsafe.Pointer
	cprog := (*unsafe.Pointer)(arena.alloc(C.size_t(unsafe.Sizeof(prog))))
	if rc := C.goccl_nvrtc_create(&l.table, cprog, arena.str(p.Source), arena.str(p.Name), C.int(len(names)),
		arena.strs(texts), arena.strs(names)); rc != 0 {
		return Result{}, fail("nvrtcCreateProgram", rc, "")
	}
	defer C.goccl_nvrtc_destroy(&l.table, cprog)
	prog = *cprog

	rc := C.goccl_nvrtc_compile(&l.table, prog, C.int(len(p.Options)), arena.strs(p.Options))
	log, logRC := l.output(prog, 0)
	if rc != 0 {
		return Result{}, fail("nvrtcCompileProgram", rc, string(log))
	}
	if logRC != 0 {
		return Result{}, fail("nvrtcGetProgramLog", logRC, "")
	}
	res := Result{Log: string(log)}
	if res.PTX, rc = l.output(prog, 1); rc != 0 {
		return Result{}, fail("nvrtcGetPTX", rc, res.Log)
	}
	res.PTX = trimNUL(res.PTX)
	if res.CUBIN, rc = l.output(prog, 2); rc != 0 {
		return Result{}, fail("nvrtcGetCUBIN", rc, res.Log)
	}
	return res, nil
}

// output fetches the log (0), the PTX (1) or the cubin (2); an absent output is nil.
func (l *Library) output(prog unsafe.Pointer, what C.int) ([]byte, C.int) {
	var n C.size_t
	if rc := C.goccl_nvrtc_size(&l.table, prog, what, &n); rc != 0 || n == 0 {
		return nil, rc
	}
	buf := make([]byte, n)
	if rc := C.goccl_nvrtc_get(&l.table, prog, what, (*C.char)(unsafe.Pointer(&buf[0]))); rc != 0 {
		return nil, rc
	}
	if what == 0 {
		buf = trimNUL(buf)
	}
	return buf, 0
}

func trimNUL(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// cArena owns the C copies that one compilation needs.
type cArena struct{ blocks []unsafe.Pointer }

func (a *cArena) alloc(n C.size_t) unsafe.Pointer {
	p := C.calloc(1, max(n, 1))
	a.blocks = append(a.blocks, p)
	return p
}

func (a *cArena) str(s string) *C.char {
	p := C.CString(s)
	a.blocks = append(a.blocks, unsafe.Pointer(p))
	return p
}

func (a *cArena) strs(list []string) **C.char {
	if len(list) == 0 {
		return nil
	}
	p := (**C.char)(a.alloc(C.size_t(len(list)) * C.size_t(unsafe.Sizeof(uintptr(0)))))
	slots := unsafe.Slice(p, len(list))
	for i, s := range list {
		slots[i] = a.str(s)
	}
	return p
}

func (a *cArena) free() {
	for _, p := range a.blocks {
		C.free(p)
	}
}
