//go:build cgo && linux

package main

// #include "door.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

// configOf reads a configuration; NULL means all defaults.
func configOf(c *C.goccl_comm_config) (core.Config, error) {
	if c == nil {
		return core.Config{}, nil
	}
	if c.size < C.sizeof_goccl_comm_config {
		return core.Config{}, fmt.Errorf("%w: goccl_comm_config.size is %d, not %d: set it to sizeof(goccl_comm_config)", core.ErrInvalidArgument, c.size, int(C.sizeof_goccl_comm_config))
	}
	cfg := core.Config{NonBlocking: c.non_blocking != 0, Timeout: nanoseconds(c.timeout_ns), OpTimeout: nanoseconds(c.op_timeout_ns), SeparateGraphs: c.separate_graphs != 0}
	if c.name != nil {
		cfg.Name = C.GoString(c.name)
	}
	return cfg, nil
}

//export gocclgo_comm_start
func gocclgo_comm_start(id *C.goccl_unique_id, rank, size C.int32_t, device C.goccl_device, config *C.goccl_comm_config, out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := configOf(config)
	if err != nil {
		return result(err)
	}
	return give(out)(core.Start(uniqueID(id), int(rank), int(size), core.Handle(device), cfg))
}

//export gocclgo_comm_create
func gocclgo_comm_create(boot C.goccl_bootstrap, device C.goccl_device, config *C.goccl_comm_config, out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := configOf(config)
	if err != nil {
		return result(err)
	}
	h, err := core.Create(core.Handle(boot), core.Handle(device), cfg)
	if err == nil && !cfg.NonBlocking {
		if err = core.Wait(h); err != nil {
			_ = core.Abort(h)
		}
	}
	return store(out, C.goccl_comm(h), err)
}

//export gocclgo_comm_init_all
func gocclgo_comm_init_all(n C.int32_t, devices *C.goccl_device, config *C.goccl_comm_config, out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := configOf(config)
	if err == nil && (n < 1 || devices == nil) {
		err = fmt.Errorf("%w: %d devices", core.ErrInvalidArgument, n)
	}
	if err != nil {
		return result(err)
	}
	all, err := core.StartAll(unsafe.Slice((*core.Handle)(unsafe.Pointer(devices)), int(n)), cfg)
	if err != nil {
		return result(err)
	}
	if !cfg.NonBlocking {
		for _, h := range all {
			if e := core.Wait(h); e != nil && err == nil {
				err = e
			}
		}
		if err != nil {
			for _, h := range all {
				_ = core.Abort(h)
			}
			return result(err)
		}
	}
	copy(unsafe.Slice((*core.Handle)(unsafe.Pointer(out)), len(all)), all)
	return C.GOCCL_SUCCESS
}

// childConfig is nil for the parent's configuration.
func childConfig(config *C.goccl_comm_config) (*core.Config, error) {
	if config == nil {
		return nil, nil
	}
	cfg, err := configOf(config)
	return &cfg, err
}

//export gocclgo_comm_split_start
func gocclgo_comm_split_start(comm C.goccl_comm, color, key C.int32_t, config *C.goccl_comm_config, out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := childConfig(config)
	if err != nil {
		return result(err)
	}
	return give(out)(core.Split(core.Handle(comm), int(color), int(key), cfg))
}

//export gocclgo_comm_shrink_start
func gocclgo_comm_shrink_start(comm C.goccl_comm, exclude *C.int32_t, n, abort C.int32_t, config *C.goccl_comm_config, out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := childConfig(config)
	if err == nil && (n < 1 || exclude == nil) {
		err = fmt.Errorf("%w: no ranks to exclude", core.ErrInvalidArgument)
	}
	if err != nil {
		return result(err)
	}
	ranks := make([]int, n)
	for i, x := range unsafe.Slice(exclude, int(n)) {
		ranks[i] = int(x)
	}
	return give(out)(core.Shrink(core.Handle(comm), ranks, abort != 0, cfg))
}

//export gocclgo_comm_wait
func gocclgo_comm_wait(comm C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Wait(core.Handle(comm)))
}

//export gocclgo_comm_info_get
func gocclgo_comm_info_get(comm C.goccl_comm, out *C.goccl_comm_info) (r C.goccl_result) {
	defer catch(&r)
	info, err := core.CommInfo(core.Handle(comm))
	if err != nil {
		return result(err)
	}
	id, err := core.DeviceID(info.Device)
	if err != nil {
		return result(err)
	}
	*out = C.goccl_comm_info{rank: C.int32_t(info.Rank), size: C.int32_t(info.Size), device_kind: C.int32_t(id.Kind), device_index: C.int32_t(id.Index), device: C.goccl_device(info.Device)}
	if info.Config.NonBlocking {
		out.non_blocking = 1
	}
	return C.GOCCL_SUCCESS
}

//export gocclgo_comm_error
func gocclgo_comm_error(comm C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	return result(core.CommError(core.Handle(comm)))
}

//export gocclgo_comm_finalize
func gocclgo_comm_finalize(comm C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Finalize(core.Handle(comm)))
}

//export gocclgo_comm_destroy
func gocclgo_comm_destroy(comm C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Destroy(core.Handle(comm)))
}

//export gocclgo_comm_abort
func gocclgo_comm_abort(comm C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Abort(core.Handle(comm)))
}

//export gocclgo_comm_revoke
func gocclgo_comm_revoke(comm C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Revoke(core.Handle(comm)))
}

//export gocclgo_op_create
func gocclgo_op_create(comm C.goccl_comm, typ C.uint32_t, scalar unsafe.Pointer, onHost C.int32_t, out *C.uint32_t) (r C.goccl_result) {
	defer catch(&r)
	op, err := core.CreateOp(core.Handle(comm), uint32(typ), scalar, onHost != 0)
	return store(out, C.uint32_t(op), err)
}

//export gocclgo_op_destroy
func gocclgo_op_destroy(comm C.goccl_comm, op C.uint32_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.DestroyOp(core.Handle(comm), uint32(op)))
}

//export gocclgo_window_register
func gocclgo_window_register(comm C.goccl_comm, ptr unsafe.Pointer, size C.uint64_t, out *C.goccl_window) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.RegisterWindow(core.Handle(comm), ptr, uint64(size)))
}

//export gocclgo_window_deregister
func gocclgo_window_deregister(window C.goccl_window) (r C.goccl_result) {
	defer catch(&r)
	return result(core.DeregisterWindow(core.Handle(window)))
}
