//go:build cgo && linux

package main

/*
#include "door.h"
#include "goccl_primitive.h"
*/
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

//export gocclgo_semaphore_stub_create
func gocclgo_semaphore_stub_create(conn C.goccl_object, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewSemaphoreStub(object(conn)))
}

//export gocclgo_semaphore_stub_deserialize
func gocclgo_semaphore_stub_deserialize(ctx C.goccl_object, data unsafe.Pointer, n C.uint64_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.ReadSemaphoreStub(object(ctx), bytesOf(data, n)))
}

//export gocclgo_semaphore_create
func gocclgo_semaphore_create(local, remote C.goccl_object, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewSemaphore(object(local), object(remote)))
}

//export gocclgo_semaphore_signal
func gocclgo_semaphore_signal(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.SemaphoreSignal(object(h)))
}

//export gocclgo_semaphore_poll
func gocclgo_semaphore_poll(h C.goccl_object, out *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	ok, err := core.SemaphorePoll(object(h))
	return store(out, truth(ok), err)
}

//export gocclgo_semaphore_wait
func gocclgo_semaphore_wait(h C.goccl_object, timeout C.int64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.SemaphoreWait(object(h), nanoseconds(timeout)))
}

//export gocclgo_base_memory_channel_create
func gocclgo_base_memory_channel_create(sema C.goccl_object, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewBaseMemoryChannel(object(sema)))
}

//export gocclgo_memory_channel_create
func gocclgo_memory_channel_create(sema, dst, src, packetBuffer C.goccl_object,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewMemoryChannel(object(sema), object(dst), object(src), object(packetBuffer)))
}

//export gocclgo_switch_channel_create
func gocclgo_switch_channel_create(comm C.goccl_object, dev C.goccl_device, mem C.goccl_object, tag C.int32_t,
	timeout C.int64_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewSwitchChannel(object(comm), core.Handle(dev), object(mem), int(tag), nanoseconds(timeout)))
}

//export gocclgo_channel_run
func gocclgo_channel_run(h C.goccl_object, op C.uint32_t, a, b, size C.uint64_t, flag C.uint32_t,
	signalled *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	ok, err := core.RunChannel(object(h), core.ChannelOp(op), uint64(a), uint64(b), uint64(size), uint32(flag))
	if signalled != nil {
		*signalled = truth(ok)
	}
	return result(err)
}

//export gocclgo_fifo_create
func gocclgo_fifo_create(ctx C.goccl_object, dev C.goccl_device, size C.int32_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewFifo(object(ctx), core.Handle(dev), int(size)))
}

//export gocclgo_fifo_poll
func gocclgo_fifo_poll(h C.goccl_object, out *C.goccl_trigger, found *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	t, position, ok, err := core.FifoPoll(object(h))
	if err == nil && ok {
		*out = C.goccl_trigger{_type: C.uint64_t(t.Type), size: C.uint64_t(t.Size), src: C.uint64_t(t.Src),
			src_offset: C.uint64_t(t.SrcOffset),
			dst:        C.uint64_t(t.Dst), dst_offset: C.uint64_t(t.DstOffset), semaphore: C.uint64_t(t.Semaphore),
			position: C.uint64_t(position)}
	}
	return store(found, truth(ok), err)
}

//export gocclgo_fifo_pop
func gocclgo_fifo_pop(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.FifoPop(object(h)))
}

//export gocclgo_fifo_size
func gocclgo_fifo_size(h C.goccl_object, out *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	n, err := core.FifoSize(object(h))
	return store(out, C.int32_t(n), err)
}

//export gocclgo_proxy_service_create
func gocclgo_proxy_service_create(ctx C.goccl_object, dev C.goccl_device, fifoSize C.int32_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewProxyService(object(ctx), core.Handle(dev), int(fifoSize)))
}

//export gocclgo_proxy_service_start
func gocclgo_proxy_service_start(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.StartProxy(object(h)))
}

//export gocclgo_proxy_service_stop
func gocclgo_proxy_service_stop(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.StopProxy(object(h)))
}

//export gocclgo_proxy_service_add_semaphore
func gocclgo_proxy_service_add_semaphore(h, sema C.goccl_object, out *C.uint32_t) (r C.goccl_result) {
	defer catch(&r)
	id, err := core.ProxyAddSemaphore(object(h), object(sema))
	return store(out, C.uint32_t(id), err)
}

//export gocclgo_proxy_service_build_semaphore
func gocclgo_proxy_service_build_semaphore(h, comm, conn C.goccl_object, out *C.uint32_t) (r C.goccl_result) {
	defer catch(&r)
	id, err := core.ProxyBuildSemaphore(object(h), object(comm), object(conn))
	return store(out, C.uint32_t(id), err)
}

//export gocclgo_proxy_service_add_memory
func gocclgo_proxy_service_add_memory(h, mem C.goccl_object, out *C.uint32_t) (r C.goccl_result) {
	defer catch(&r)
	id, err := core.ProxyAddMemory(object(h), object(mem))
	return store(out, C.uint32_t(id), err)
}

//export gocclgo_proxy_service_remove_semaphore
func gocclgo_proxy_service_remove_semaphore(h C.goccl_object, id C.uint32_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.ProxyRemove(object(h), false, uint32(id)))
}

//export gocclgo_proxy_service_remove_memory
func gocclgo_proxy_service_remove_memory(h C.goccl_object, id C.uint32_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.ProxyRemove(object(h), true, uint32(id)))
}

//export gocclgo_base_port_channel_create
func gocclgo_base_port_channel_create(h C.goccl_object, sema C.uint32_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewBasePortChannel(object(h), uint32(sema)))
}

//export gocclgo_port_channel_create
func gocclgo_port_channel_create(h C.goccl_object, sema, dst, src C.uint32_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewPortChannel(object(h), uint32(sema), uint32(dst), uint32(src)))
}
