//go:build cgo && linux

package main

// #include "door.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
	"github.com/goccl/goccl/job/bootstrap"
)

// configOf reads a configuration; NULL means all defaults.
func configOf(c *C.goccl_comm_config) (core.Config, error) {
	if c == nil {
		return core.Config{}, nil
	}
	if c.size < C.sizeof_goccl_comm_config {
		return core.Config{}, fmt.Errorf("%w: goccl_comm_config.size is %d, not %d: set it to sizeof(goccl_comm_config)",
			core.ErrInvalidArgument, c.size, int(C.sizeof_goccl_comm_config))
	}
	cfg := core.Config{NonBlocking: c.non_blocking != 0, Timeout: nanoseconds(c.timeout_ns),
		OpTimeout: nanoseconds(c.op_timeout_ns), SeparateGraphs: c.separate_graphs != 0,
		UnorderedCaptures: c.separate_graphs == 2, MinCTAs: int(c.min_ctas), MaxCTAs: int(c.max_ctas),
		CTAPolicy: uint32(c.cta_policy)}
	if c.cta_policy > C.GOCCL_CTA_POLICY_ZERO {
		return cfg, fmt.Errorf("%w: goccl_comm_config.cta_policy is %d: want 0 to 3", core.ErrInvalidArgument,
			uint32(c.cta_policy))
	}
	if c.separate_graphs > 2 {
		return cfg, fmt.Errorf("%w: goccl_comm_config.separate_graphs is %d: want 0, 1 or 2", core.ErrInvalidArgument,
			uint64(c.separate_graphs))
	}
	if c.name != nil {
		cfg.Name = C.GoString(c.name)
	}
	return cfg, nil
}

//export gocclgo_comm_start
func gocclgo_comm_start(id *C.goccl_unique_id, rank, size C.int32_t, device C.goccl_device, config *C.goccl_comm_config,
	out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := configOf(config)
	if err != nil {
		return result(err)
	}
	return give(out)(core.Start(uniqueID(id), int(rank), int(size), core.Handle(device), cfg))
}

//export gocclgo_comm_create
func gocclgo_comm_create(boot C.goccl_bootstrap, device C.goccl_device, config *C.goccl_comm_config,
	out *C.goccl_comm) (r C.goccl_result) {
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
func gocclgo_comm_init_all(n C.int32_t, devices *C.goccl_device, config *C.goccl_comm_config,
	out *C.goccl_comm) (r C.goccl_result) {
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
func gocclgo_comm_split_start(comm C.goccl_comm, color, key C.int32_t, config *C.goccl_comm_config,
	out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := childConfig(config)
	if err != nil {
		return result(err)
	}
	return give(out)(core.Split(core.Handle(comm), int(color), int(key), cfg))
}

//export gocclgo_comm_shrink_start
func gocclgo_comm_shrink_start(comm C.goccl_comm, exclude *C.int32_t, n, abort C.int32_t, config *C.goccl_comm_config,
	out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := childConfig(config)
	if err == nil && (n < 0 || n > 0 && exclude == nil) {
		err = fmt.Errorf("%w: %d ranks to exclude, and no list", core.ErrInvalidArgument, n)
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

//export gocclgo_comm_unique_id
func gocclgo_comm_unique_id(comm C.goccl_comm, timeout C.int64_t, out *C.goccl_unique_id) (r C.goccl_result) {
	defer catch(&r)
	id, err := core.CommUniqueID(core.Handle(comm), nanoseconds(timeout))
	return store((*bootstrap.UniqueID)(unsafe.Pointer(out)), id, err)
}

//export gocclgo_comm_grow_start
func gocclgo_comm_grow_start(comm C.goccl_comm, size C.int32_t, id *C.goccl_unique_id, config *C.goccl_comm_config,
	out *C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	cfg, err := childConfig(config)
	if err != nil {
		return result(err)
	}
	var with *bootstrap.UniqueID
	if id != nil {
		copied := uniqueID(id)
		with = &copied
	}
	return give(out)(core.Grow(core.Handle(comm), int(size), with, cfg))
}

//export gocclgo_comm_suspend_start
func gocclgo_comm_suspend_start(comm C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Suspend(core.Handle(comm)))
}

//export gocclgo_comm_resume_start
func gocclgo_comm_resume_start(comm C.goccl_comm) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Resume(core.Handle(comm)))
}

//export gocclgo_comm_memory
func gocclgo_comm_memory(comm C.goccl_comm, suspendable, persistent *C.uint64_t,
	suspended *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	m, err := core.CommMemory(core.Handle(comm))
	if err != nil {
		return result(err)
	}
	*suspendable, *persistent, *suspended = C.uint64_t(m.Suspendable), C.uint64_t(m.Persistent), 0
	if m.Suspended {
		*suspended = 1
	}
	return C.GOCCL_SUCCESS
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
	*out = C.goccl_comm_info{rank: C.int32_t(info.Rank), size: C.int32_t(info.Size), device_kind: C.int32_t(id.Kind),
		device_index: C.int32_t(id.Index), device: C.goccl_device(info.Device)}
	if info.Config.NonBlocking {
		out.non_blocking = 1
	}
	if info.Reaches {
		out.reaches = 1
	}
	return C.GOCCL_SUCCESS
}

//export gocclgo_comm_hash
func gocclgo_comm_hash(comm C.goccl_comm, out *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	h, err := core.CommHash(core.Handle(comm))
	return store(out, C.uint64_t(h), err)
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
func gocclgo_op_create(comm C.goccl_comm, typ C.uint32_t, scalar unsafe.Pointer, onHost C.int32_t,
	out *C.uint32_t) (r C.goccl_result) {
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
func gocclgo_window_register(comm C.goccl_comm, ptr unsafe.Pointer, size C.uint64_t,
	out *C.goccl_window) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.RegisterWindow(core.Handle(comm), ptr, uint64(size)))
}

//export gocclgo_flat_register
func gocclgo_flat_register(comm C.goccl_comm, ptr unsafe.Pointer, size C.uint64_t,
	out *C.goccl_window) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.RegisterFlat(core.Handle(comm), ptr, uint64(size)))
}

//export gocclgo_flat_wait
func gocclgo_flat_wait(window C.goccl_window, out *C.goccl_flat) (r C.goccl_result) {
	defer catch(&r)
	f, err := core.WaitFlat(core.Handle(window))
	flat := C.goccl_flat{base: C.uint64_t(f.Base), stride: C.uint64_t(f.Stride), abort: C.uint64_t(f.Abort)}
	return store(out, flat, err)
}

//export gocclgo_window_deregister
func gocclgo_window_deregister(window C.goccl_window) (r C.goccl_result) {
	defer catch(&r)
	return result(core.DeregisterWindow(core.Handle(window)))
}
