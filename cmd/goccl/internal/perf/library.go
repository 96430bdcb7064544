package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/driver/ncclabi"
	"github.com/goccl/goccl/job/bootstrap"
)

// Peers is the communication among the ranks of a measurement. Every bootstrap.Bootstrap implements it.
type Peers interface {
	Rank() int
	WorldSize() int
	AllGather(ctx context.Context, data []byte) ([][]byte, error)
	Barrier(ctx context.Context) error
}

// Communicator is one rank of a library under measurement.
type Communicator interface {
	// Submit enqueues the requests, as one group when there are several, on the stream that each names.
	Submit(requests ...collective.Request) error
	// Synchronize waits until the stream's work is done, and returns the first failure of the communicator.
	Synchronize(ctx context.Context, s device.Stream) error
	// Close frees the communicator's resources. Enqueued work has ended.
	Close() error
}

// Library makes communicators. Its name labels the columns and the rows of the record.
type Library interface {
	Name() string
	// Version is the version that the library reports.
	Version() string
	// Open joins the communicator of all peers on dev. All ranks call it together.
	Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error)
}

// Graph is a captured sequence of operations.
type Graph interface {
	Launch(s device.Stream) error
	Close() error
}

// register lets plans of peers access buffers directly; without it they work on copies. All ranks call it with the same
// number of buffers.
func register(ctx context.Context, c Communicator, buffers ...device.Ptr) error {
	comm, ok := c.(*goccl.Comm)
	if !ok {
		return nil
	}
	for _, a := range comm.Algorithms() {
		r, ok := a.(interface {
			Register(ctx context.Context, p device.Ptr) error
		})
		if !ok {
			continue
		}
		for _, p := range buffers {
			if err := r.Register(ctx, p); err != nil {
				return err
			}
		}
		return nil // plans share registered memory
	}
	return nil
}

// registerWindows makes buffers windows of a goccl communicator, which end with it. All ranks call it with the same
// number and sizes.
func registerWindows(c Communicator, buffers ...device.Allocation) error {
	comm, ok := c.(*goccl.Comm)
	if !ok {
		return nil
	}
	for _, b := range buffers {
		if _, err := comm.RegisterWindow(b.Ptr(), b.Size()); err != nil {
			return err
		}
	}
	return nil
}

// ours implements Library with goccl, with its own choice of algorithm or a forced one.
type ours struct {
	algo    string // "": goccl chooses
	kind    Kind
	timeout time.Duration
}

func (l *ours) Name() string {
	if l.algo != "" {
		return "goccl:" + l.algo
	}
	return "goccl"
}

func (l *ours) Version() string { return buildinfo.Read().Version }

func (l *ours) Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error) {
	boot, ok := peers.(bootstrap.Bootstrap)
	if !ok {
		return nil, fmt.Errorf("perf: goccl needs a Bootstrap to open, not a %T", peers)
	}
	cfg := goccl.Config{Bootstrap: boot, Device: dev, Timeout: l.timeout, OpTimeout: l.timeout, Name: "perf"}
	if l.algo != "" {
		cfg.Algorithms = l.kind.String() + ":" + l.algo
	}
	c, err := goccl.NewComm(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Capture captures what enqueue does on a CUDA stream.
func Capture(s device.Stream, enqueue func() error) (Graph, error) {
	stream, ok := s.(*cuda.Stream)
	if !ok {
		return nil, fmt.Errorf("perf: cannot capture a %T", s)
	}
	exec, err := stream.Capture(enqueue)
	if err != nil {
		return nil, err
	}
	return cudaGraph{exec}, nil
}

type cudaGraph struct{ *cuda.Exec }

func (g cudaGraph) Launch(s device.Stream) error { return g.Exec.Launch(s.(*cuda.Stream)) }

// abi implements Library with a library that has NCCL's C ABI.
type abi struct {
	lib *ncclabi.Library
}

func openABI(path string, kind device.Kind) (Library, error) {
	if kind != device.CUDA {
		return nil, invalid("--against %s: the other library works on GPU memory; measure with --device cuda", path)
	}
	lib, err := ncclabi.Open(path)
	if err != nil {
		return nil, fmt.Errorf("perf: --against: %w", err)
	}
	return &abi{lib}, nil
}

func (l *abi) Name() string    { return "NCCL " + l.lib.VersionString() }
func (l *abi) Version() string { return l.lib.VersionString() + " (" + l.lib.Path() + ")" }

// Open creates the unique id on rank 0 and sends it to the other ranks.
func (l *abi) Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error) {
	gpu, ok := dev.(*cuda.Device)
	if !ok {
		return nil, fmt.Errorf("perf: %s needs a CUDA device, not %v", l.Name(), dev.ID())
	}
	var mine []byte
	if peers.Rank() == 0 {
		id, err := l.lib.UniqueID()
		if err != nil {
			return nil, err
		}
		mine = id[:]
	}
	all, err := peers.AllGather(ctx, mine)
	if err != nil {
		return nil, err
	}
	var id ncclabi.UniqueID
	if copy(id[:], all[0]) != len(id) {
		return nil, fmt.Errorf("perf: rank 0 sent %d bytes as the identity of %s", len(all[0]), l.Name())
	}
	c, err := l.lib.InitRank(gpu.Context(), peers.WorldSize(), id, peers.Rank())
	if err != nil {
		return nil, err
	}
	return &abiCommunicator{lib: l.lib, comm: c, ctx: gpu.Context(), n: peers.WorldSize(), rank: peers.Rank()}, nil
}

type abiCommunicator struct {
	lib     *ncclabi.Library
	comm    *ncclabi.Comm
	ctx     uintptr
	n, rank int

	// The operator of the latest mulsum, with its type.
	op      int
	hasOp   bool
	opType  datatype.Type
	opValue [8]byte
}

func (c *abiCommunicator) Close() error {
	var err error
	if c.hasOp {
		err = c.comm.DestroyOp(c.op)
	}
	return errors.Join(err, c.comm.Destroy())
}

func (c *abiCommunicator) Synchronize(ctx context.Context, s device.Stream) error {
	return errors.Join(s.Synchronize(ctx), c.comm.AsyncError())
}

func (c *abiCommunicator) Submit(requests ...collective.Request) error {
	if len(requests) == 1 {
		return c.submit(&requests[0])
	}
	return c.lib.Group(c.ctx, func() error {
		for i := range requests {
			if err := c.submit(&requests[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// operator returns the ncclRedOp_t of a request.
func (c *abiCommunicator) operator(r *collective.Request) (int, error) {
	if r.Op != datatype.PreMulSum {
		return int(r.Op), nil
	}
	if c.hasOp && c.opType == r.Type && c.opValue == r.Scalar {
		return c.op, nil
	}
	if c.hasOp {
		c.hasOp = false
		if err := c.comm.DestroyOp(c.op); err != nil {
			return 0, err
		}
	}
	op, err := c.comm.PreMulSum(r.Scalar, int(r.Type))
	if err != nil {
		return 0, err
	}
	c.op, c.hasOp, c.opType, c.opValue = op, true, r.Type, r.Scalar
	return op, nil
}

// functions are the functions of NCCL's ABI that run a collective.
var functions = map[collective.Collective]ncclabi.Function{
	collective.AllReduce: ncclabi.AllReduce, collective.ReduceScatter: ncclabi.ReduceScatter,
	collective.Reduce: ncclabi.Reduce, collective.AllGather: ncclabi.AllGather, collective.Broadcast: ncclabi.Broadcast,
	collective.Send: ncclabi.Send, collective.Recv: ncclabi.Recv, collective.AllToAll: ncclabi.AlltoAll,
	collective.Gather: ncclabi.Gather, collective.Scatter: ncclabi.Scatter,
}

func (c *abiCommunicator) submit(r *collective.Request) error {
	f, ok := functions[r.Collective]
	x := ncclabi.Call{Send: uintptr(r.Send), Recv: uintptr(r.Recv), Count: r.Count, Type: int(r.Type), Root: r.Root,
		Stream: r.Stream.Raw()}
	switch r.Collective {
	case collective.AllReduce, collective.ReduceScatter, collective.Reduce:
		op, err := c.operator(r)
		if err != nil {
			return err
		}
		x.Op = op
	case collective.Send, collective.Recv:
		x.Root = r.Peer
	case collective.AllToAll, collective.Gather, collective.Scatter: // NCCL has them since 2.28
		ok = c.lib.Has(f)
	case collective.AllToAllV, collective.AllToAllVDevice: // with the counts on the host
	case collective.AllGather, collective.Broadcast:
	default:
		return fmt.Errorf("perf: %v is not in NCCL's ABI", r.Collective)
	}
	if ok {
		return c.comm.Enqueue(f, &x)
	}
	return c.lib.Group(c.ctx, func() error { return c.pointToPoint(r) })
}

// pointToPoint implements collectives that the library lacks by sends and receives, as nccl-tests does. It leaves out
// empty pairs.
func (c *abiCommunicator) pointToPoint(r *collective.Request) error {
	q := *r
	if q.Collective == collective.AllToAllVDevice {
		q.Collective = collective.AllToAllV
	}
	sent, received := q.Parts(c.rank, c.n)
	for p := range c.n {
		for _, x := range []struct {
			f ncclabi.Function
			collective.Part
		}{{ncclabi.Send, sent[p]}, {ncclabi.Recv, received[p]}} {
			if x.Bytes == 0 {
				continue
			}
			if err := c.comm.Enqueue(x.f, &ncclabi.Call{Send: uintptr(x.At), Recv: uintptr(x.At), Count: x.Bytes / r.Type.Size(),
				Type: int(r.Type), Root: p, Stream: r.Stream.Raw()}); err != nil {
				return err
			}
		}
	}
	return nil
}
