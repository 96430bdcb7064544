package driver

// CaptureMode selects which calls of other threads would invalidate a capture.
type CaptureMode int

// The capture modes. In the global and the thread-local mode, a capture must end on the thread that began it.
const (
	CaptureGlobal      CaptureMode = 0
	CaptureThreadLocal CaptureMode = 1
	CaptureRelaxed     CaptureMode = 2
)

// CaptureStatus is the capture state of a stream.
type CaptureStatus int

// The capture states.
const (
	CaptureNone CaptureStatus = iota
	CaptureActive
	CaptureInvalidated
)

// BeginCapture records later work on s into a graph instead of running it.
func (c Context) BeginCapture(s Stream, m CaptureMode) error {
	return c.run(opBeginCapture, args{uint64(s), uint64(m)})
}

// EndCapture returns the graph.
func (c Context) EndCapture(s Stream) (Graph, error) {
	a := args{uint64(s)}
	err := call(opEndCapture, c, &a, nil, nil)
	if err != nil {
		return 0, err
	}
	return Graph(a[0]), nil
}

// CaptureInfo returns the capture state of s and, while capturing, a number that is unique to the capture.
func (c Context) CaptureInfo(s Stream) (CaptureStatus, uint64, error) {
	a := args{uint64(s)}
	err := call(opCaptureInfo, c, &a, nil, nil)
	return CaptureStatus(a[0]), a[1], err
}

// Instantiate makes an executable graph of g.
func (c Context) Instantiate(g Graph) (GraphExec, error) {
	return get[GraphExec](c, opGraphInstantiate, args{uint64(g)})
}

// UploadGraph prepares the first launch.
func (c Context) UploadGraph(e GraphExec, s Stream) error {
	return c.run(opGraphUpload, args{uint64(e), uint64(s)})
}

// LaunchGraph enqueues a launch of the graph.
func (c Context) LaunchGraph(e GraphExec, s Stream) error {
	return c.run(opGraphLaunch, args{uint64(e), uint64(s)})
}

// GraphNodes returns the number of nodes.
func (c Context) GraphNodes(g Graph) (int, error) { return get[int](c, opGraphNodes, args{uint64(g)}) }

// DestroyGraph frees a graph.
func (c Context) DestroyGraph(g Graph) error { return gone(c.run(opGraphDestroy, args{uint64(g)})) }

// DestroyGraphExec frees an instantiated graph; enqueued launches still run.
func (c Context) DestroyGraphExec(e GraphExec) error {
	return gone(c.run(opGraphExecDestroy, args{uint64(e)}))
}
