package core

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// firstCreatedOp is GOCCL_FIRST_CREATED_OP.
const firstCreatedOp = 0x10000

// translate converts q to a request of c, without a stream, and checks it.
func (c *comm) translate(q *Request, out *collective.Request) error {
	if q.Type >= uint32(datatype.NumTypes) && q.Collective != uint32(collective.Barrier) {
		return c.argument(q, "element type %d is not known", q.Type)
	}
	if q.Count > 1<<62 {
		return c.argument(q, "the count, %d, is negative or too large", int64(q.Count))
	}
	*out = collective.Request{Collective: collective.Collective(q.Collective), Send: device.Ptr(q.Send),
		Recv: device.Ptr(q.Recv), Count: int64(q.Count),
		Type: datatype.Type(q.Type)}
	switch out.Collective {
	case collective.AllReduce, collective.ReduceScatter, collective.Reduce:
		if err := c.operator(q, out); err != nil {
			return err
		}
	case collective.AllToAllV:
		n := c.size
		if q.SendCounts == nil || q.SendDispls == nil || q.RecvCounts == nil || q.RecvDispls == nil {
			return c.argument(q, "an array of counts or displacements is NULL")
		}
		out.SendCounts, out.SendDispls = unsafe.Slice((*int64)(q.SendCounts), n), unsafe.Slice((*int64)(q.SendDispls), n)
		out.RecvCounts, out.RecvDispls = unsafe.Slice((*int64)(q.RecvCounts), n), unsafe.Slice((*int64)(q.RecvDispls), n)
	}
	if out.Collective == collective.AllToAllVDevice {
		out.DeviceCounts = collective.DeviceCounts{SendCounts: device.Ptr(uintptr(q.SendCounts)),
			SendDispls: device.Ptr(uintptr(q.SendDispls)),
			RecvCounts: device.Ptr(uintptr(q.RecvCounts)), RecvDispls: device.Ptr(uintptr(q.RecvDispls)),
			SendElements: int64(q.SendElements), RecvElements: int64(q.RecvElements)}
	}
	if q.Config != nil {
		if err := c.configure(q, out); err != nil {
			return err
		}
	}
	switch out.Collective {
	case collective.Reduce, collective.Broadcast, collective.Gather, collective.Scatter:
		out.Root = int(q.Root)
	case collective.Send, collective.Recv:
		out.Peer = int(q.Root)
	}
	return nil
}

// operator fills in Op and the factor.
func (c *comm) operator(q *Request, out *collective.Request) error {
	if q.Op < firstCreatedOp {
		if q.Op >= uint32(datatype.NumOps) {
			return c.argument(q, "reduction operator %d is not known", q.Op)
		}
		out.Op = datatype.Op(q.Op)
		binary.LittleEndian.PutUint64(out.Scalar[:], q.Scalar)
		out.ScalarPtr = device.Ptr(q.ScalarPtr)
		return nil
	}
	o, err := c.findOp(q.Op)
	if err != nil {
		return c.wrap(q, err)
	}
	if o.typ != out.Type {
		return c.argument(q, "the operator was made for %v, the call is for %v", o.typ, out.Type)
	}
	out.Op, out.Scalar, out.ScalarPtr = datatype.PreMulSum, o.scalar, o.ptr
	return nil
}

func (c *comm) argument(q *Request, format string, args ...any) error {
	return c.wrap(q, fmt.Errorf("%w: "+format, append([]any{ErrInvalidArgument}, args...)...))
}

func (c *comm) wrap(q *Request, err error) error {
	return &collective.Error{Comm: c.cfg.Name, Op: collective.Collective(q.Collective).String(), Rank: c.rank, Peer: -1,
		Err: err}
}

// nearest are goccl's algorithms for NCCL's names, best first.
var nearest = map[string][]string{
	"tree": {"one_shot_ll128", "one_shot_ll", "one_shot", "staged"},
	"ring": {"ring", "two_shot_ll128", "two_shot", "direct"},
}

// configure fills in what q's configuration says.
func (c *comm) configure(q *Request, out *collective.Request) error {
	cfg := q.Config
	if uintptr(cfg.Size) < unsafe.Offsetof(cfg.AllCounts) { // before AllCounts there was the rest
		return c.argument(q, "goccl_call_config.size is %d, not %d", cfg.Size, unsafe.Sizeof(*cfg))
	}
	if cfg.MaxCTAs != 0 && cfg.MinCTAs > cfg.MaxCTAs {
		return c.argument(q, "min_ctas is %d, max_ctas %d", cfg.MinCTAs, cfg.MaxCTAs)
	}
	if cfg.CTAPolicy > uint32(collective.CTAPolicyZero) {
		return c.argument(q, "cta_policy is %d", cfg.CTAPolicy)
	}
	most := cfg.MaxCTAs
	if m := c.cfg.MaxCTAs; m != 0 && int(most) > m && cfg.Force == 0 {
		most = uint16(m)
	} else if m != 0 && int(most) > m {
		return c.argument(q, "max_ctas is %d, more than the communicator's %d", cfg.MaxCTAs, m)
	}
	if _, gpu := c.dev.Device.(*cuda.Device); cfg.Launched != 0 && !gpu {
		return c.argument(q, "an event for the launch: the host device has no CUDA events")
	}
	known := uintptr(cfg.Size) > unsafe.Offsetof(cfg.AllCounts) && cfg.AllCounts != nil
	if known && out.Collective == collective.AllToAllV {
		out.AllCounts = unsafe.Slice((*int64)(cfg.AllCounts), c.size*c.size)
	}
	if uintptr(cfg.Size) > unsafe.Offsetof(cfg.Exact) {
		if cfg.Exact > uint32(collective.ExactReference) {
			return c.argument(q, "exact is %d: want a GOCCL_EXACT", cfg.Exact)
		}
		out.Exact = collective.Exact(cfg.Exact)
	}
	out.MinCTAs, out.MaxCTAs, out.CTAPolicy = cfg.MinCTAs, most, collective.CTAPolicy(cfg.CTAPolicy)
	list := unix.BytePtrToString(cfg.Algorithms)
	if list == "" {
		return nil
	}
	out.Algorithm = c.choose(out.Collective, list)
	if out.Algorithm == "" && cfg.Force != 0 {
		return c.argument(q, "%v has no algorithm among %q; goccl perf %v --algo list names them", out.Collective, list,
			out.Collective)
	}
	return nil
}

// choose returns the first name in list that the communicator has for a collective, or "".
func (c *comm) choose(what collective.Collective, list string) string {
	inner := c.inner.Load()
	if inner == nil {
		return ""
	}
	catalog := inner.Catalog()
	for name := range strings.SplitSeq(strings.ToLower(list), ",") {
		name = strings.TrimSpace(name)
		for _, want := range append([]string{name}, nearest[name]...) {
			for _, a := range catalog {
				if a.Collective == what && a.Forceable && a.Name == collective.BaseName(want) {
					return want
				}
			}
		}
	}
	return ""
}

// launched records the events of the requests' configurations behind their work.
func (g *group) launched(reqs []Request) error {
	for i := range reqs {
		if cfg := reqs[i].Config; cfg != nil && cfg.Launched != 0 {
			s, ok := g.reqs[i].Stream.(*cuda.Stream)
			if !ok {
				return fmt.Errorf("%w: an event for the launch needs a CUDA stream", ErrInvalidArgument)
			}
			if err := s.RecordRaw(cfg.Launched); err != nil {
				return err
			}
		}
	}
	return nil
}

// redop is a pre-multiplied sum. Its number is firstCreatedOp·(index+1) plus the communicator's index, so that an
// operator of another communicator is detected.
type redop struct {
	live   bool
	typ    datatype.Type
	scalar [8]byte
	ptr    device.Ptr
}

const maxOps = 0x7ffe

// OpCreate makes an operator of the communicator. scalar is read during this call when onHost.
func OpCreate(h Handle, typ uint32, scalar unsafe.Pointer, onHost bool) (uint32, error) {
	c, err := comms.get(h)
	if err != nil {
		return 0, err
	}
	if typ >= uint32(datatype.NumTypes) || scalar == nil {
		return 0, fmt.Errorf("%w: an operator needs an element type (this one is %d) and a factor's address",
			ErrInvalidArgument, typ)
	}
	o := redop{live: true, typ: datatype.Type(typ)}
	if onHost {
		copy(o.scalar[:], unsafe.Slice((*byte)(scalar), o.typ.Size()))
	} else {
		o.ptr = device.Ptr(uintptr(scalar))
	}
	c.opMu.Lock()
	defer c.opMu.Unlock()
	i := slices.IndexFunc(c.ops, func(o redop) bool { return !o.live })
	if i < 0 {
		if i = len(c.ops); i == maxOps {
			return 0, fmt.Errorf("%w: the communicator has %d operators; destroy those that are not needed", ErrInvalidUsage,
				maxOps)
		}
		c.ops = append(c.ops, o)
	}
	c.ops[i] = o
	return uint32(i+1)*firstCreatedOp | uint32(h.index()), nil
}

// OpDestroy frees an operator. Requests that were submitted with it keep their factor.
func OpDestroy(h Handle, op uint32) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	if _, err := c.findOp(op); err != nil {
		return err
	}
	c.opMu.Lock()
	defer c.opMu.Unlock()
	c.ops[op/firstCreatedOp-1].live = false
	return nil
}

func (c *comm) findOp(op uint32) (redop, error) {
	c.opMu.Lock()
	defer c.opMu.Unlock()
	i := int(op/firstCreatedOp) - 1
	if i < 0 || i >= len(c.ops) || !c.ops[i].live || int(op%firstCreatedOp) != c.handle.index() {
		return redop{}, fmt.Errorf("%w: %#x is no operator of this communicator", ErrInvalidArgument, op)
	}
	return c.ops[i], nil
}
