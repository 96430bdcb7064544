//go:build cgo && linux

package verbs

//cu:nocgo fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux; build it with "+
//cu:nocgo 	"CGO_ENABLED=1 and a C compiler to use RDMA", ErrUnavailable)

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#cgo noescape gocclverbs_poll
#cgo nocallback gocclverbs_poll
#cgo noescape gocclverbs_send
#cgo nocallback gocclverbs_send
#cgo nocallback gocclverbs_receive
#cgo nocallback gocclverbs_notify
#include <stdlib.h>
#include "calls.h"
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Go's types are C's.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Attributes{})-C.sizeof_struct_goccl_attributes]
	_ = [1]struct{}{}[unsafe.Sizeof(Path{})-C.sizeof_struct_goccl_path]
	_ = [1]struct{}{}[unsafe.Sizeof(GIDEntry{})-C.sizeof_struct_goccl_gid]
	_ = [1]struct{}{}[unsafe.Sizeof(Work{})-C.sizeof_struct_goccl_work]
	_ = [1]struct{}{}[unsafe.Sizeof(Completion{})-C.sizeof_struct_goccl_completion]
)

const library = "libibverbs.so.1"

func open() error {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	text := (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(text))
	if C.gocclverbs_load(path, text, 512) != 0 {
		return fmt.Errorf("%w: %s: install rdma-core (Debian: libibverbs1 and ibverbs-providers)", ErrUnavailable,
			C.GoString(text))
	}
	return nil
}

func failure(call string, r C.int) error {
	if r == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", call, syscall.Errno(r))
}

// Open opens a device by name. asyncFD, which does not block, has an input when Event has an event.
func Open(name string) (c Context, asyncFD int, err error) {
	if err := Load(); err != nil {
		return 0, -1, err
	}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var fd C.int32_t
	var h C.uint64_t
	if err := failure("ibv_open_device", C.gocclverbs_open(cname, &h, &fd)); err != nil {
		return 0, -1, fmt.Errorf("%s: %w: is /dev/infiniband accessible?", name, err)
	}
	return Context(h), int(fd), nil
}

// Close closes the device.
func (c Context) Close() error {
	return failure("ibv_close_device", C.gocclverbs_close(C.uint64_t(c)))
}

// Query returns the attributes of the device and of a port; port 0 asks for the device alone.
func (c Context) Query(port int) (Attributes, error) {
	var a Attributes
	return a, failure("ibv_query_port",
		C.gocclverbs_query(C.uint64_t(c), C.int(port), (*C.struct_goccl_attributes)(unsafe.Pointer(&a))))
}

// GID returns an entry of a port's table.
func (c Context) GID(port, index int) (GID, error) {
	var g GID
	return g, failure("ibv_query_gid",
		C.gocclverbs_gid(C.uint64_t(c), C.int(port), C.int(index), (*C.uint8_t)(unsafe.Pointer(&g[0]))))
}

// GIDs returns the entries in use of all ports. The error is EOPNOTSUPP where the library is older than this call.
func (c Context) GIDs() ([]GIDEntry, error) {
	table := make([]GIDEntry, 1024)
	var n C.int
	err := failure("ibv_query_gid_table",
		C.gocclverbs_gids(C.uint64_t(c), (*C.struct_goccl_gid)(unsafe.Pointer(&table[0])), C.int(len(table)), &n))
	return table[:n], err
}

// Event takes one asynchronous event: its type, and the QP, CQ or port that it is about. The error is EAGAIN if there
// is none.
func (c Context) Event() (kind int, element uint64, err error) {
	var t C.int32_t
	var e C.uint64_t
	err = failure("ibv_get_async_event", C.gocclverbs_event(C.uint64_t(c), &t, &e))
	return int(t), uint64(e), err
}

// PD makes a protection domain.
func (c Context) PD() (PD, error) {
	var pd C.uint64_t
	err := failure("ibv_alloc_pd", C.gocclverbs_alloc_pd(C.uint64_t(c), &pd))
	return PD(pd), err
}

// Close frees the domain.
func (p PD) Close() error { return failure("ibv_dealloc_pd", C.gocclverbs_free_pd(C.uint64_t(p))) }

// Register registers size bytes at addr, which is host memory, or GPU memory where the kernel knows it
// (nvidia-peermem).
func (p PD) Register(addr uintptr, size int64, access int) (MR, error) {
	var h C.uint64_t
	var l, r C.uint32_t
	err := failure("ibv_reg_mr", C.gocclverbs_reg(C.uint64_t(p), C.uint64_t(addr), C.uint64_t(size), C.int(access), &h,
		&l, &r))
	return MR{uint64(h), uint32(l), uint32(r)}, err
}

// RegisterDMABuf registers size bytes at an offset of a DMA-BUF; peers address them by addr. fd may be closed
// afterwards.
func (p PD) RegisterDMABuf(fd int, offset, size int64, addr uintptr, access int) (MR, error) {
	var h C.uint64_t
	var l, r C.uint32_t
	err := failure("ibv_reg_dmabuf_mr", C.gocclverbs_reg_dmabuf(C.uint64_t(p), C.uint64_t(offset), C.uint64_t(size),
		C.uint64_t(addr), C.int(fd), C.int(access), &h, &l, &r))
	return MR{uint64(h), uint32(l), uint32(r)}, err
}

// Close ends the registration.
func (m MR) Close() error { return failure("ibv_dereg_mr", C.gocclverbs_dereg(C.uint64_t(m.handle))) }

// Channel makes a completion channel. fd, which does not block, has an input when Ack has an event.
func (c Context) Channel() (ch Channel, fd int, err error) {
	var h C.uint64_t
	var f C.int32_t
	err = failure("ibv_create_comp_channel", C.gocclverbs_channel(C.uint64_t(c), &h, &f))
	return Channel(h), int(f), err
}

// Ack takes one event of the channel. The error is EAGAIN if there is none.
func (c Channel) Ack() error { return failure("ibv_get_cq_event", C.gocclverbs_ack(C.uint64_t(c))) }

// Close frees the channel.
func (c Channel) Close() error {
	return failure("ibv_destroy_comp_channel", C.gocclverbs_free_channel(C.uint64_t(c)))
}

// CQ makes a completion queue, which reports to ch.
func (c Context) CQ(entries int, ch Channel) (CQ, error) {
	var h C.uint64_t
	err := failure("ibv_create_cq", C.gocclverbs_create_cq(C.uint64_t(c), C.int(entries), C.uint64_t(ch), &h))
	return CQ(h), err
}

// Close frees the queue.
func (q CQ) Close() error { return failure("ibv_destroy_cq", C.gocclverbs_destroy_cq(C.uint64_t(q))) }

// Notify asks for one event at the next completion. The caller polls once more after it.
func (q CQ) Notify() error { return failure("ibv_req_notify_cq", C.gocclverbs_notify(C.uint64_t(q))) }

// Poll takes up to 16 completions.
func (q CQ) Poll(out []Completion) (int, error) {
	n := C.gocclverbs_poll(C.uint64_t(q), (*C.struct_goccl_completion)(unsafe.Pointer(&out[0])), C.int(len(out)))
	if n < 0 {
		return 0, fmt.Errorf("ibv_poll_cq: failed (%d)", int(n))
	}
	return int(n), nil
}

// QP makes a reliably connected queue pair whose completions of both kinds go to q. inlined is how many bytes a send
// shall take by value; maxInline, how many it can.
func (p PD) QP(q CQ, sends, receives, inlined int) (qp QP, number uint32, maxInline int, err error) {
	var h C.uint64_t
	var n, m C.uint32_t
	err = failure("ibv_create_qp", C.gocclverbs_create_qp(C.uint64_t(p), C.uint64_t(q), C.int(sends), C.int(receives),
		C.int(inlined), &h, &n, &m))
	return QP(h), uint32(n), int(m), err
}

// Close frees the queue pair.
func (q QP) Close() error { return failure("ibv_destroy_qp", C.gocclverbs_destroy_qp(C.uint64_t(q))) }

// Reset returns the queue pair to its first state: what was posted is gone.
func (q QP) Reset() error { return failure("ibv_modify_qp(RESET)", C.gocclverbs_reset(C.uint64_t(q))) }

// Fail ends the queue pair: what was posted completes with Flushed.
func (q QP) Fail() error { return failure("ibv_modify_qp(ERR)", C.gocclverbs_fail(C.uint64_t(q))) }

// Init binds the queue pair to a port; receives can then be posted.
func (q QP) Init(port int) error {
	return failure("ibv_modify_qp(INIT)", C.gocclverbs_init(C.uint64_t(q), C.int(port)))
}

// Ready connects the queue pair.
func (q QP) Ready(p *Path) error {
	return failure("ibv_modify_qp(RTR, RTS)",
		C.gocclverbs_ready(C.uint64_t(q), (*C.struct_goccl_path)(unsafe.Pointer(p))))
}

// Send posts one work request.
func (q QP) Send(w *Work) error {
	return failure("ibv_post_send", C.gocclverbs_send(C.uint64_t(q), (*C.struct_goccl_work)(unsafe.Pointer(w))))
}

// Receive posts n receives with an id. Each takes the immediate of one write.
func (q QP) Receive(n int, id uint64) error {
	return failure("ibv_post_recv", C.gocclverbs_receive(C.uint64_t(q), C.int(n), C.uint64_t(id)))
}

// StatusText and EventText are the library's words.
func StatusText(status int32) string { return C.GoString(C.gocclverbs_status(C.int(status))) }
func EventText(kind int) string      { return C.GoString(C.gocclverbs_event_name(C.int(kind))) }
