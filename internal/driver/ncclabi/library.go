package ncclabi

import (
	"fmt"
	"runtime"
)

// UniqueID is an ncclUniqueId.
type UniqueID [128]byte

// Library is a loaded library.
type Library struct {
	table table
	path  string
}

// Open loads the library at path (or by soname, like "libnccl.so.2").
func Open(path string) (*Library, error) {
	t, err := open(path)
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

// check turns a result into an error. The path of success does not allocate.
func (l *Library) check(f Function, comm uintptr, r Result) error {
	switch r {
	case Success, InProgress:
		return nil
	case noFunction:
		return fmt.Errorf("%w: %s in %s", ErrMissing, f.name(), l.path)
	}
	e := &Error{Library: l.path, Call: f.name(), Result: r}
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
