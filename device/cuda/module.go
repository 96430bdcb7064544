package cuda

import (
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// JITError is an image that the driver refused; %+v prints the whole compiler log.
type JITError = driver.JITError

// Module is loaded device code.
type Module struct {
	d       *Device
	raw     driver.Module
	kernels map[string]*Function // of a shared module
}

// LoadModule loads a cubin, a fatbin or PTX (with or without a NUL at its end).
func (d *Device) LoadModule(image []byte) (*Module, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	raw, err := d.gpu.ctx.LoadModule(image)
	return made(d, "load module", &Module{d: d, raw: raw}, err)
}

// Close unloads the module, unless it is shared. None of its kernels may be running.
func (m *Module) Close() error { return m.d.end(m, "unload module") }

func (m *Module) destroy() error { return m.d.gpu.ctx.UnloadModule(m.raw) }

// Function finds a kernel by its extern "C" name and loads it now, so that no launch loads lazily while other kernels
// spin.
func (m *Module) Function(name string) (*Function, error) {
	if f := m.kernels[name]; f != nil {
		return f, nil
	}
	raw, err := m.d.gpu.ctx.ModuleFunction(m.raw, name)
	if err != nil {
		return nil, fail(m.d.gpu.ordinal, "find kernel "+name, err)
	}
	return &Function{d: m.d, raw: raw, name: name}, nil
}

// Global returns the address and size in bytes of a variable.
func (m *Module) Global(name string) (device.Ptr, int64, error) {
	p, n, err := m.d.gpu.ctx.ModuleGlobal(m.raw, name)
	return device.Ptr(p), n, fail(m.d.gpu.ordinal, "find variable "+name, err)
}

// Function is a kernel. It is valid until its module is closed.
type Function struct {
	d    *Device
	raw  driver.Function
	name string
}

// Name is the kernel's name.
func (f *Function) Name() string { return f.name }

// FunctionAttributes are the compiler's results for a kernel. Sizes are in bytes.
type FunctionAttributes struct {
	MaxThreads, Registers                        int
	StaticShared, MaxDynamicShared, Local, Const int
	PTXVersion, BinaryVersion                    int // 90 is 9.0
	SharedCarveout                               int // see SetSharedCarveout; -1: the driver chooses
}

// Attributes reads the attributes of f.
func (f *Function) Attributes() (FunctionAttributes, error) {
	var a FunctionAttributes
	for _, x := range []struct {
		to   *int
		attr driver.FuncAttribute
	}{{&a.MaxThreads, driver.FuncMaxThreads}, {&a.Registers, driver.FuncRegisters},
		{&a.StaticShared, driver.FuncSharedSize},
		{&a.MaxDynamicShared, driver.FuncMaxDynamicShared}, {&a.Local, driver.FuncLocalSize},
		{&a.Const, driver.FuncConstSize},
		{&a.PTXVersion, driver.FuncPTXVersion}, {&a.BinaryVersion, driver.FuncBinaryVersion},
		{&a.SharedCarveout, driver.FuncSharedCarveout}} {
		var err error
		if *x.to, err = f.d.gpu.ctx.FuncAttribute(f.raw, x.attr); err != nil {
			return a, fail(f.d.gpu.ordinal, "attributes of "+f.name, err)
		}
	}
	return a, nil
}

// SetMaxDynamicShared allows launches with up to n bytes of dynamic shared memory; it is required above 48 KiB.
func (f *Function) SetMaxDynamicShared(n int) error {
	return fail(f.d.gpu.ordinal, "dynamic shared memory of "+f.name,
		f.d.gpu.ctx.SetFuncAttribute(f.raw, driver.FuncMaxDynamicShared, n))
}

// SetSharedCarveout sets the part of an SM's L1 cache, in percent, that is shared memory while f runs. Kernels with
// different parts are never on one SM at the same time, whatever else is free there.
func (f *Function) SetSharedCarveout(percent int) error {
	return fail(f.d.gpu.ordinal, "shared memory of "+f.name,
		f.d.gpu.ctx.SetFuncAttribute(f.raw, driver.FuncSharedCarveout, percent))
}
