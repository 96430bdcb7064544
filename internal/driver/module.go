package driver

import (
	"bytes"
	"strings"
)

// Module is a CUmodule.
type (
	Module   uintptr
	Function uintptr
)

// jitLog is the size of each of the driver's two compiler logs.
const jitLog = 8 << 10

// LoadModule loads a cubin, a fatbin or PTX. If the driver refuses the image, the error is a *JITError with the
// compiler's log.
//
//cu:call ModuleLoad = module_load(a, p, q)
func (c Context) LoadModule(image []byte) (Module, error) {
	// PTX is text and must end in NUL; binary images carry their size.
	img := image
	if len(img) == 0 || img[len(img)-1] != 0 {
		img = append(bytes.Clone(image), 0)
	}
	log := make([]byte, 2*jitLog)
	a := args{jitLog}
	err := call(opModuleLoad, c, &a, &img[0], &log[0])
	if err == nil {
		return Module(a[0]), nil
	}
	if e, ok := err.(*Error); ok {
		info, bad := text(log[:jitLog]), text(log[jitLog:])
		return 0, &JITError{Err: e, Log: strings.TrimSpace(bad + "\n" + info)}
	}
	return 0, err
}

func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return strings.TrimSpace(string(s))
}

// UnloadModule frees the module, its functions and its variables.
//
//cu:call (c Context) UnloadModule(m Module) = gone cuModuleUnload(m)

// ModuleFunction finds a kernel and loads it onto the device.
//
//cu:call ModuleFunction = module_function(a, p)
func (c Context) ModuleFunction(m Module, name string) (Function, error) {
	a := args{uint64(m)}
	err := call(opModuleFunction, c, &a, cstring(name), nil)
	return Function(a[0]), err
}

// ModuleGlobal returns the address and size of a variable.
//
//cu:call ModuleGlobal = cuModuleGetGlobal_v2(r0, r1, a0, p)
func (c Context) ModuleGlobal(m Module, name string) (Ptr, int64, error) {
	a := args{uint64(m)}
	err := call(opModuleGlobal, c, &a, cstring(name), nil)
	return Ptr(a[0]), int64(a[1]), err
}

func cstring(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

// FuncAttribute is a CUfunction_attribute.
type FuncAttribute int

// The function attributes.
const (
	FuncMaxThreads       FuncAttribute = 0
	FuncSharedSize       FuncAttribute = 1
	FuncConstSize        FuncAttribute = 2
	FuncLocalSize        FuncAttribute = 3
	FuncRegisters        FuncAttribute = 4
	FuncPTXVersion       FuncAttribute = 5
	FuncBinaryVersion    FuncAttribute = 6
	FuncMaxDynamicShared FuncAttribute = 8
	FuncSharedCarveout   FuncAttribute = 9
)

// FuncAttribute reads an attribute of f.
//
//cu:call (c Context) FuncAttribute(f Function, attr FuncAttribute) (value int) = cuFuncGetAttribute(value, attr, f)

// SetFuncAttribute sets an attribute of f.
//
//cu:call (c Context) SetFuncAttribute(f Function, attr FuncAttribute, value int) = cuFuncSetAttribute(f, attr, value)

// LaunchFlag requests a launch attribute.
type LaunchFlag uint32

// LaunchOverlapPrevious lets the kernel start before the previous one of the stream ends (programmatic dependent
// launch).
const LaunchOverlapPrevious LaunchFlag = 1

// LaunchConfig is the shape of a launch. Cluster {0,0,0} means none.
type LaunchConfig struct {
	Grid, Block, Cluster [3]uint32
	Shared               uint32
	Flags                LaunchFlag
}

// Launch enqueues f on s. params is the parameter buffer in the layout that the kernel declares: each parameter at its
// own alignment. Nothing is allocated; params may be reused when Launch returns.
//
//cu:queue Launch = goccl_launch(a, p)
func (c Context) Launch(f Function, cfg *LaunchConfig, s Stream, params []byte) error {
	a := cfg.pack(f, s, params)
	return call(opLaunch, c, &a, first(params), nil)
}

func (cfg *LaunchConfig) pack(f Function, s Stream, params []byte) args {
	return args{uint64(f), uint64(s), pair(cfg.Grid[0], cfg.Grid[1]), pair(cfg.Grid[2], cfg.Block[0]),
		pair(cfg.Block[1], cfg.Block[2]),
		pair(cfg.Shared, uint32(cfg.Flags)), pair(cfg.Cluster[0], cfg.Cluster[1]), uint64(cfg.Cluster[2]),
		uint64(len(params))}
}

func first(b []byte) *byte {
	if len(b) == 0 {
		return nil
	}
	return &b[0]
}

func pair(lo, hi uint32) uint64 { return uint64(lo) | uint64(hi)<<32 }
