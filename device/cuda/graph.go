package cuda

import (
	"errors"
	"runtime"

	"github.com/goccl/goccl/internal/driver"
)

// CaptureMode restricts what the process may do while a stream is captured.
type CaptureMode = driver.CaptureMode

// The capture modes. With CaptureRelaxed a goroutine may begin and end a capture on different threads; the others
// require runtime.LockOSThread from BeginCapture to EndCapture.
const (
	CaptureGlobal      = driver.CaptureGlobal
	CaptureThreadLocal = driver.CaptureThreadLocal
	CaptureRelaxed     = driver.CaptureRelaxed
)

// CaptureStatus is the capture state of a stream.
type CaptureStatus = driver.CaptureStatus

// The capture states.
const (
	CaptureNone        = driver.CaptureNone
	CaptureActive      = driver.CaptureActive
	CaptureInvalidated = driver.CaptureInvalidated
)

// BeginCapture records later work of the stream into a graph instead of running it.
func (s *Stream) BeginCapture(m CaptureMode) error {
	return s.do("begin capture", func() error { return s.d.gpu.ctx.BeginCapture(s.raw, m) })
}

// EndCapture returns the recorded graph.
func (s *Stream) EndCapture() (*Graph, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	raw, err := s.d.gpu.ctx.EndCapture(s.raw)
	return made(s.d, "end capture", &Graph{d: s.d, raw: raw}, err)
}

// Capture returns a graph of what enqueue does on the stream, ready to launch.
func (s *Stream) Capture(enqueue func() error) (x *Exec, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := s.BeginCapture(CaptureThreadLocal); err != nil {
		return nil, err
	}
	err = enqueue()
	graph, ended := s.EndCapture() // also after a failure, or the stream stays in capture mode
	if ended == nil {
		defer func() { err = errors.Join(err, graph.Close()) }()
	}
	if err = errors.Join(err, ended); err != nil {
		return nil, err
	}
	if x, err = graph.Instantiate(); err != nil {
		return nil, err
	}
	if err := x.Upload(s); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// CaptureStatus returns the capture state of the stream and, while capturing, a number that is unique to the capture.
func (s *Stream) CaptureStatus() (CaptureStatus, uint64, error) {
	st, id, err := s.d.gpu.ctx.CaptureInfo(s.raw)
	return st, id, s.done("capture status", err)
}

// Graph is recorded work.
type Graph struct {
	d   *Device
	raw driver.Graph
}

// Nodes returns the number of nodes.
func (g *Graph) Nodes() (int, error) {
	n, err := g.d.gpu.ctx.GraphNodes(g.raw)
	return n, fail(g.d.gpu.ordinal, "graph nodes", err)
}

// Instantiate makes the graph ready to launch. The Graph may then be closed.
func (g *Graph) Instantiate() (*Exec, error) {
	raw, err := g.d.gpu.ctx.Instantiate(g.raw)
	return made(g.d, "instantiate graph", &Exec{d: g.d, raw: raw}, err)
}

// Close frees the graph.
func (g *Graph) Close() error { return g.d.end(g, "close graph") }

func (g *Graph) destroy() error { return g.d.gpu.ctx.DestroyGraph(g.raw) }

// Exec is an instantiated graph, which can be launched any number of times.
type Exec struct {
	d   *Device
	raw driver.GraphExec
}

// Launch enqueues one launch of the graph on s.
func (x *Exec) Launch(s *Stream) error {
	return s.do("launch graph", func() error { return x.d.gpu.ctx.LaunchGraph(x.raw, s.raw) })
}

// Upload prepares the first launch.
func (x *Exec) Upload(s *Stream) error {
	return s.done("upload graph", x.d.gpu.ctx.UploadGraph(x.raw, s.raw))
}

// Close frees the Exec; launches that were enqueued still run.
func (x *Exec) Close() error { return x.d.end(x, "close graph") }

func (x *Exec) destroy() error { return x.d.gpu.ctx.DestroyGraphExec(x.raw) }
