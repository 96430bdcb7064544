package mockcuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// TraceEnv names the file through which the mock hands its notes over.
const TraceEnv = "MOCKCUDA_TRACE"

// CallKind says what was called.
type CallKind uint32

// The calls that a trace notes: everything that is ordered by a stream.
const (
	Launch CallKind = iota + 1
	RecordEvent
	WaitEvent
	Copy
	Set
	WriteValue
	WaitValue
	CaptureQuery
	GraphLaunch
	Begin // a kernel begins, while the trace has a seed
	End   // and ends
)

// String is like "launch".
func (k CallKind) String() string {
	names := [...]string{"", "launch", "record", "wait-event", "copy", "set", "write", "wait-value", "capture-query",
		"graph", "begin", "end"}
	if int(k) < len(names) {
		return names[k]
	}
	return "?"
}

// Call is one note.
type Call struct {
	Kind     CallKind
	Stream   uintptr // as it was given
	Captured bool    // the stream was being captured
	Overlap  bool    // the launch may begin before the work ahead of it in its stream has ended
	// Call's arguments. Copies and sets: destination, source (or value) and size. Writes and waits of values: address
	// and value. Events: the event. Graphs: the graph, its size and its capture. A launch: A is the calling thread, B a
	// unique number, which is A of every Begin and End of the launched work, and C its capture or 0.
	A, B, C             uint64
	Kernel              string
	Grid, Block, Shared uint32
	Params              []byte
}

// These mirror struct trace and struct note of ../testdata/mockcuda/trace.c.
const (
	traceBytes  = 8 << 20
	traceHeader = 64
	traceHold   = traceBytes - 256
	noteBytes   = 64
)

// Trace is the mock's notes. One process has one, made before the driver is loaded.
type Trace struct{ mem []byte }

// NewTrace makes the file in dir and names it in the environment. Call it before anything uses the driver. Nothing is
// noted until Start.
func NewTrace(dir string) (*Trace, error) {
	path := filepath.Join(dir, "mockcuda.trace")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(traceBytes); err != nil {
		return nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, traceBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Trace{mem}, os.Setenv(TraceEnv, path)
}

func (t *Trace) on() *uint32   { return (*uint32)(unsafe.Pointer(&t.mem[0])) }
func (t *Trace) used() *uint64 { return (*uint64)(unsafe.Pointer(&t.mem[8])) }

// Seed makes the mock asynchronous: what was enqueued runs at later calls, a few steps at each, in an order that the
// seed decides among those that are allowed; kernels begin, and end later. 0 ends that.
func (t *Trace) Seed(seed uint64) { atomic.StoreUint64((*uint64)(unsafe.Pointer(&t.mem[16])), seed) }

// Weakness is what a driver cannot do.
type Weakness uint64

// The weaknesses of drivers; they add up.
const (
	LossyQuery  Weakness = 1 << iota // the first form of the query of a capture refuses, as where edges are not plain
	KeepsEdges                       // no edge can be removed from a graph
	NoStreamIDs                      // streams have no ids
	KernelsWait                      // collectives do not end before an abort, or while this is so
)

// Weaken takes abilities from the driver until it is called again.
func (t *Trace) Weaken(w Weakness) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&t.mem[24])), uint64(w))
}

// Hold makes the next launch wait, at most a minute, until release is called. It returns once a launch waits, with the
// return addresses of the launch and of its callers, from the innermost, as far as C functions go.
func (t *Trace) Hold(ctx context.Context, launch func()) (callers []uintptr, release func(), err error) {
	word := (*uint32)(unsafe.Pointer(&t.mem[traceHold]))
	atomic.StoreUint32(word, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		launch()
	}()
	release = func() {
		atomic.StoreUint32(word, 0)
		<-done
	}
	for atomic.LoadUint32(word) != 2 {
		select {
		case <-done:
			return nil, release, errors.New("mockcuda: nothing was launched")
		case <-ctx.Done():
			return nil, release, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	for i := range binary.LittleEndian.Uint32(t.mem[traceHold+4:]) {
		callers = append(callers, uintptr(binary.LittleEndian.Uint64(t.mem[traceHold+8+8*i:])))
	}
	return callers, release, nil
}

// Waited names the first call since the last Waited in which a driver may wait for an idle device while a kernel on it
// waits; "" if there was none.
func (t *Trace) Waited() string {
	name, _, _ := bytes.Cut(t.mem[32:64], []byte{0})
	defer clear(t.mem[32:64])
	return string(name)
}

// Start forgets what was noted and notes from now on. No call may be under way.
func (t *Trace) Start() {
	atomic.StoreUint64(t.used(), 0)
	clear(t.mem[4:8])
	atomic.StoreUint32(t.on(), 1)
}

// Stop ends the noting and gives the notes in order.
func (t *Trace) Stop() ([]Call, error) {
	atomic.StoreUint32(t.on(), 0)
	if binary.LittleEndian.Uint32(t.mem[4:]) != 0 {
		return nil, errors.New("mockcuda: the trace is full: note less")
	}
	var calls []Call
	b := t.mem[traceHeader : traceHeader+atomic.LoadUint64(t.used())]
	for len(b) > 0 {
		u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
		u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
		c := Call{Kind: CallKind(u32(4)), Captured: u32(8)&1 != 0, Overlap: u32(8)&2 != 0, Grid: u32(12), Block: u32(16),
			Shared: u32(20),
			Stream: uintptr(u64(24)), A: u64(32), B: u64(40), C: u64(48)}
		params, name := int(u32(56)), int(u32(60))
		c.Kernel = string(b[noteBytes : noteBytes+name])
		c.Params = append([]byte(nil), b[noteBytes+name:noteBytes+name+params]...)
		calls = append(calls, c)
		b = b[u32(0):]
	}
	return calls, nil
}

// Close unmaps the notes. The mock keeps its own mapping.
func (t *Trace) Close() error { return syscall.Munmap(t.mem) }
