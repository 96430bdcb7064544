//go:build cgo && linux

package main

/*
#include "door.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
	"github.com/goccl/goccl/job/bootstrap"
)

func uniqueID(id *C.goccl_unique_id) bootstrap.UniqueID {
	return *(*bootstrap.UniqueID)(unsafe.Pointer(id))
}

// bytesOf views n bytes of C memory as a slice.
func bytesOf(p unsafe.Pointer, n C.uint64_t) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(p), int(n))
}

//export gocclgo_unique_id_create
func gocclgo_unique_id_create(timeout C.int64_t, out *C.goccl_unique_id) (r C.goccl_result) {
	defer catch(&r)
	id, err := core.NewUniqueID(nanoseconds(timeout))
	return store((*bootstrap.UniqueID)(unsafe.Pointer(out)), id, err)
}

//export gocclgo_unique_id_close
func gocclgo_unique_id_close(id *C.goccl_unique_id) (r C.goccl_result) {
	defer catch(&r)
	return result(uniqueID(id).Close())
}

//export gocclgo_bootstrap_join_id
func gocclgo_bootstrap_join_id(id *C.goccl_unique_id, rank, size C.int32_t, timeout C.int64_t,
	out *C.goccl_bootstrap) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.JoinID(uniqueID(id), int(rank), int(size), nanoseconds(timeout)))
}

//export gocclgo_bootstrap_join_address
func gocclgo_bootstrap_join_address(address *C.char, rank, size C.int32_t, timeout C.int64_t,
	out *C.goccl_bootstrap) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.JoinAddress(C.GoString(address), int(rank), int(size), nanoseconds(timeout)))
}

//export gocclgo_bootstrap_join_env
func gocclgo_bootstrap_join_env(timeout C.int64_t, out *C.goccl_bootstrap) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.JoinEnv(nanoseconds(timeout)))
}

//export gocclgo_bootstrap_local
func gocclgo_bootstrap_local(size C.int32_t, out *C.goccl_bootstrap) (r C.goccl_result) {
	defer catch(&r)
	all, err := core.LocalBootstraps(int(size))
	if err == nil {
		copy(unsafe.Slice((*core.Handle)(unsafe.Pointer(out)), len(all)), all)
	}
	return result(err)
}

//export gocclgo_bootstrap_info
func gocclgo_bootstrap_info(h C.goccl_bootstrap, rank, size, localRank, localSize *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	a, b, c, d, err := core.BootstrapInfo(core.Handle(h))
	if err != nil {
		return result(err)
	}
	for _, o := range []struct {
		to *C.int32_t
		v  int
	}{{rank, a}, {size, b}, {localRank, c}, {localSize, d}} {
		if o.to != nil {
			*o.to = C.int32_t(o.v)
		}
	}
	return C.GOCCL_SUCCESS
}

//export gocclgo_bootstrap_send
func gocclgo_bootstrap_send(h C.goccl_bootstrap, peer, tag C.int32_t, data unsafe.Pointer, n C.uint64_t,
	timeout C.int64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.BootstrapSend(core.Handle(h), int(peer), int(tag), bytesOf(data, n), nanoseconds(timeout)))
}

//export gocclgo_bootstrap_recv
func gocclgo_bootstrap_recv(h C.goccl_bootstrap, peer, tag C.int32_t, timeout C.int64_t, data *unsafe.Pointer,
	n *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return giveBytes(data, n)(core.BootstrapRecv(core.Handle(h), int(peer), int(tag), nanoseconds(timeout)))
}

//export gocclgo_bootstrap_all_gather
func gocclgo_bootstrap_all_gather(h C.goccl_bootstrap, mine unsafe.Pointer, n C.uint64_t, all unsafe.Pointer,
	timeout C.int64_t) (r C.goccl_result) {
	defer catch(&r)
	_, size, _, _, err := core.BootstrapInfo(core.Handle(h))
	if err == nil && n > bootstrap.MaxMessage {
		err = fmt.Errorf("%w: %d bytes of each rank, at most %d", core.ErrInvalidArgument, n, bootstrap.MaxMessage)
	}
	if err != nil {
		return result(err)
	}
	return result(core.BootstrapAllGather(core.Handle(h), bytesOf(mine, n), bytesOf(all, n*C.uint64_t(size)),
		nanoseconds(timeout)))
}

//export gocclgo_bootstrap_barrier
func gocclgo_bootstrap_barrier(h C.goccl_bootstrap, timeout C.int64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.BootstrapBarrier(core.Handle(h), nanoseconds(timeout)))
}

//export gocclgo_bootstrap_close
func gocclgo_bootstrap_close(h C.goccl_bootstrap) (r C.goccl_result) {
	defer catch(&r)
	return result(core.CloseBootstrap(core.Handle(h)))
}
