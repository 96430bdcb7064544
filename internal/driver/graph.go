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
//
//cu:queue (c Context) BeginCapture(s Stream, m CaptureMode) = cuStreamBeginCapture_v2(s, m)

// EndCapture returns the graph.
//
//cu:queue (c Context) EndCapture(s Stream) (g Graph) = cuStreamEndCapture(s, g)

// CaptureInfo returns the capture state of s and, while capturing, a number that is unique to the capture.
//
//cu:queue (c Context) CaptureInfo(s Stream) (st CaptureStatus, n uint64) = cuStreamGetCaptureInfo_v2(s, st, n, 0, 0, 0)

// Instantiate makes an executable graph of g.
//
//cu:call (c Context) Instantiate(g Graph) (e GraphExec) = cuGraphInstantiateWithFlags(e, g, 0)

// UploadGraph prepares the first launch.
//
//cu:call (c Context) UploadGraph(e GraphExec, s Stream) = cuGraphUpload(e, s)

// LaunchGraph enqueues a launch of the graph.
//
//cu:queue (c Context) LaunchGraph(e GraphExec, s Stream) = cuGraphLaunch(e, s)

// GraphNodes returns the number of nodes.
//
//cu:call (c Context) GraphNodes(g Graph) (n int) = cuGraphGetNodes(g, 0, n)

// DestroyGraph frees a graph.
//
//cu:call (c Context) DestroyGraph(g Graph) = gone cuGraphDestroy(g)

// DestroyGraphExec frees an instantiated graph; enqueued launches still run.
//
//cu:call (c Context) DestroyGraphExec(e GraphExec) = gone cuGraphExecDestroy(e)
