//go:build cgo && linux

package main

/*
#include <stdlib.h>
#include "door.h"
#include "goccl_primitive.h"
*/
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

func object(h C.goccl_object) core.Handle { return core.Handle(h) }

func truth(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

//export gocclgo_object_close
func gocclgo_object_close(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.CloseObject(object(h)))
}

//export gocclgo_object_serialize
func gocclgo_object_serialize(h C.goccl_object, data *unsafe.Pointer, n *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return giveBytes(data, n)(core.Serialize(object(h)))
}

//export gocclgo_object_device_handle
func gocclgo_object_device_handle(h C.goccl_object, data *unsafe.Pointer, n *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return giveBytes(data, n)(core.DeviceHandle(object(h)))
}

//export gocclgo_context_create
func gocclgo_context_create(timeout, spinLimit C.int64_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewContext(nanoseconds(timeout), nanoseconds(spinLimit)))
}

//export gocclgo_context_abort
func gocclgo_context_abort(h C.goccl_object, reason *C.char) (r C.goccl_result) {
	defer catch(&r)
	return result(core.AbortContext(object(h), C.GoString(reason)))
}

//export gocclgo_context_error
func gocclgo_context_error(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.ContextError(object(h)))
}

//export gocclgo_context_recover
func gocclgo_context_recover(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.RecoverContext(object(h)))
}

//export gocclgo_endpoint_create
func gocclgo_endpoint_create(ctx C.goccl_object, transport C.int32_t, dev C.goccl_device,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewEndpoint(object(ctx), int(transport), core.Handle(dev)))
}

//export gocclgo_endpoint_create_rdma
func gocclgo_endpoint_create_rdma(ctx C.goccl_object, transport, adapter C.int32_t, dev C.goccl_device,
	port, gid, queue, sends, receives C.int32_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewRDMAEndpoint(object(ctx), int(transport), int(adapter), core.Handle(dev),
		core.RDMAOptions{Port: int(port), GIDIndex: int(gid), QueueDepth: int(queue), SendDepth: int(sends),
			ReceiveDepth: int(receives)}))
}

//export gocclgo_endpoint_deserialize
func gocclgo_endpoint_deserialize(data unsafe.Pointer, n C.uint64_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.ReadEndpoint(bytesOf(data, n)))
}

//export gocclgo_endpoint_info
func gocclgo_endpoint_info(h C.goccl_object, transport, kind, index, local *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	t, id, l, err := core.EndpointInfo(object(h))
	if err != nil {
		return result(err)
	}
	*transport, *kind, *index, *local = C.int32_t(t), C.int32_t(id.Kind), C.int32_t(id.Index), truth(l)
	return C.GOCCL_SUCCESS
}

//export gocclgo_connection_create
func gocclgo_connection_create(ctx, local, remote C.goccl_object, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewConnection(object(ctx), object(local), object(remote)))
}

//export gocclgo_connection_info
func gocclgo_connection_info(h C.goccl_object, transport, peer, tag *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	t, p, g, err := core.ConnectionInfo(object(h))
	if err != nil {
		return result(err)
	}
	*transport, *peer, *tag = C.int32_t(t), C.int32_t(p), C.int32_t(g)
	return C.GOCCL_SUCCESS
}

//export gocclgo_connection_write
func gocclgo_connection_write(h, dst C.goccl_object, dstOff C.uint64_t, src C.goccl_object, srcOff,
	size C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Write(object(h), object(dst), uint64(dstOff), object(src), uint64(srcOff), uint64(size)))
}

//export gocclgo_connection_atomic_add
func gocclgo_connection_atomic_add(h, dst C.goccl_object, off, delta C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.AtomicAdd(object(h), object(dst), uint64(off), uint64(delta)))
}

//export gocclgo_connection_update_and_sync
func gocclgo_connection_update_and_sync(h, dst C.goccl_object, off C.uint64_t, src *C.uint64_t,
	value C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.UpdateAndSync(object(h), object(dst), uint64(off), (*uint64)(unsafe.Pointer(src)), uint64(value)))
}

//export gocclgo_connection_flush
func gocclgo_connection_flush(h C.goccl_object, timeout C.int64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Flush(object(h), nanoseconds(timeout)))
}

//export gocclgo_memory_register
func gocclgo_memory_register(ctx C.goccl_object, dev C.goccl_device, p unsafe.Pointer, size C.uint64_t,
	flags C.uint32_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.RegisterMemory(object(ctx), core.Handle(dev), uintptr(p), uint64(size), uint32(flags)))
}

//export gocclgo_memory_deserialize
func gocclgo_memory_deserialize(ctx C.goccl_object, data unsafe.Pointer, n C.uint64_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.ReadMemory(object(ctx), bytesOf(data, n)))
}

//export gocclgo_memory_info
func gocclgo_memory_info(h C.goccl_object, data, original *C.uintptr_t, size *C.uint64_t, flags *C.uint32_t,
	local *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	d, o, s, f, l, err := core.MemoryInfo(object(h))
	if err != nil {
		return result(err)
	}
	*data, *original, *size, *flags, *local = C.uintptr_t(d), C.uintptr_t(o), C.uint64_t(s), C.uint32_t(f), truth(l)
	return C.GOCCL_SUCCESS
}

//export gocclgo_memory_map
func gocclgo_memory_map(h C.goccl_object, dev C.goccl_device, timeout C.int64_t, out *C.uintptr_t) (r C.goccl_result) {
	defer catch(&r)
	p, err := core.MapMemory(object(h), core.Handle(dev), nanoseconds(timeout))
	return store(out, C.uintptr_t(p), err)
}

//export gocclgo_communicator_create
func gocclgo_communicator_create(boot C.goccl_bootstrap, ctx C.goccl_object, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewCommunicator(core.Handle(boot), object(ctx)))
}

//export gocclgo_communicator_connect
func gocclgo_communicator_connect(h C.goccl_object, transport C.int32_t, dev C.goccl_device, rank, tag C.int32_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.Connect(object(h), int(transport), core.Handle(dev), int(rank), int(tag)))
}

//export gocclgo_communicator_connect_endpoint
func gocclgo_communicator_connect_endpoint(h, endpoint C.goccl_object, rank, tag C.int32_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.ConnectEndpoint(object(h), object(endpoint), int(rank), int(tag)))
}

//export gocclgo_communicator_send_memory
func gocclgo_communicator_send_memory(h, mem C.goccl_object, rank, tag C.int32_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.SendMemory(object(h), object(mem), int(rank), int(tag)))
}

//export gocclgo_communicator_recv_memory
func gocclgo_communicator_recv_memory(h C.goccl_object, rank, tag C.int32_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.RecvMemory(object(h), int(rank), int(tag)))
}

//export gocclgo_communicator_build_semaphore
func gocclgo_communicator_build_semaphore(h, conn C.goccl_object, rank, tag C.int32_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.BuildSemaphore(object(h), object(conn), int(rank), int(tag)))
}

//export gocclgo_future_wait
func gocclgo_future_wait(h C.goccl_object, timeout C.int64_t, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.WaitFuture(object(h), nanoseconds(timeout)))
}
