package ncclabi

import (
	"fmt"
	"runtime"
	"unsafe"
)

// UniqueID is an ncclUniqueId.
type UniqueID [128]byte

// Library is a loaded library.
type Library struct {
	table table
	path  string
}

// Option changes how a library is opened.
type Option func(*options)

type options struct{ deepBind bool }

// WithDeepBind makes the library prefer its own symbols to the process's (RTLD_DEEPBIND).
func WithDeepBind() Option { return func(o *options) { o.deepBind = true } }

// Open loads the library at path (or by soname, like "libnccl.so.2").
func Open(path string, opts ...Option) (*Library, error) {
	var o options
	for _, f := range opts {
		f(&o)
	}
	t, err := open(path, o.deepBind)
	if err != nil {
		return nil, err
	}
	return &Library{table: t, path: path}, nil
}

// Path is what was opened.
func (l *Library) Path() string { return l.path }

// Version is the library's version code: 22809 is 2.28.9.
func (l *Library) Version() (int, error) {
	var a args
	err := l.check(fGetVersion, 0, l.call(fGetVersion, 0, &a, nil))
	return int(int32(a[0])), err
}

// VersionString is like "2.28.9".
func (l *Library) VersionString() string {
	v, err := l.Version()
	if err != nil {
		return "unknown"
	}
	if v < 10000 {
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)
}

// HasAlltoAll and the others tell which later functions the library has.
func (l *Library) HasAlltoAll() bool { return l.has(fAlltoAll) }

// HasGather reports ncclGather and ncclScatter.
func (l *Library) HasGather() bool { return l.has(fGather) && l.has(fScatter) }

// HasWindows reports ncclMemAlloc and ncclCommWindowRegister.
func (l *Library) HasWindows() bool { return l.has(fMemAlloc) && l.has(fCommWindowRegister) }

// HasPreMulSum reports ncclRedOpCreatePreMulSum.
func (l *Library) HasPreMulSum() bool { return l.has(fRedOpCreatePreMulSum) }

// check turns a result into an error. The path of success does not allocate.
func (l *Library) check(f function, comm uintptr, r Result) error {
	switch r {
	case Success, InProgress:
		return nil
	case noFunction:
		return fmt.Errorf("%w: %s in %s", ErrMissing, functionNames[f], l.path)
	}
	e := &Error{Library: l.path, Call: functionNames[f], Result: r}
	if e.Text = "the CUDA context could not be made current"; r != noContext {
		e.Text, e.Last = l.texts(r, comm)
	}
	return e
}

// UniqueID makes a new identity; the process that asks starts the root.
func (l *Library) UniqueID() (id UniqueID, err error) {
	var a args
	err = l.check(fGetUniqueID, 0, l.call(fGetUniqueID, 0, &a, &id[0]))
	return id, err
}

// Group runs f between ncclGroupStart and ncclGroupEnd, on one thread. The group is ended also when f fails; f's error
// comes first. ctx (the context of one of the Comms) is current at the end: without one the library would make a
// context on GPU 0.
func (l *Library) Group(ctx uintptr, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var a args
	if err := l.check(fGroupStart, 0, l.call(fGroupStart, ctx, &a, nil)); err != nil {
		return err
	}
	err := f()
	if e := l.check(fGroupEnd, 0, l.call(fGroupEnd, ctx, &a, nil)); err == nil {
		err = e
	}
	return err
}

// InitRank joins rank to a communicator of nranks on the GPU of ctx (a CUcontext). It returns when all ranks have
// joined, so ranks of one process join from separate goroutines.
func (l *Library) InitRank(ctx uintptr, nranks int, id UniqueID, rank int) (*Comm, error) {
	a := args{uint64(nranks), uint64(rank)}
	if err := l.check(fCommInitRank, 0, l.call(fCommInitRank, ctx, &a, &id[0])); err != nil {
		return nil, err
	}
	return &Comm{lib: l, raw: uintptr(a[0]), ctx: ctx}, nil
}

// InitAll makes a communicator of one rank per GPU of this process; ctxs are the GPUs' contexts in the same order.
func (l *Library) InitAll(ordinals []int, ctxs []uintptr) ([]*Comm, error) {
	n := len(ordinals)
	if n == 0 || len(ctxs) != n {
		return nil, fmt.Errorf("ncclabi: InitAll of %d GPUs and %d contexts", n, len(ctxs))
	}
	// n handles, then n 32-bit numbers.
	buf := make([]uint64, n+(n+1)/2)
	devs := unsafe.Slice((*int32)(unsafe.Pointer(&buf[n])), n)
	for i, o := range ordinals {
		devs[i] = int32(o)
	}
	a := args{uint64(n)}
	if err := l.check(fCommInitAll, 0, l.call(fCommInitAll, ctxs[0], &a, (*byte)(unsafe.Pointer(&buf[0])))); err != nil {
		return nil, err
	}
	comms := make([]*Comm, n)
	for i := range comms {
		comms[i] = &Comm{lib: l, raw: uintptr(buf[i]), ctx: ctxs[i]}
	}
	return comms, nil
}

// MemAlloc is memory by ncclMemAlloc, on the GPU of ctx.
func (l *Library) MemAlloc(ctx uintptr, size int64) (uintptr, error) {
	a := args{uint64(size)}
	err := l.check(fMemAlloc, 0, l.call(fMemAlloc, ctx, &a, nil))
	return uintptr(a[0]), err
}

// MemFree frees it.
func (l *Library) MemFree(ctx, p uintptr) error {
	a := args{uint64(p)}
	return l.check(fMemFree, 0, l.call(fMemFree, ctx, &a, nil))
}
