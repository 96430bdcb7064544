// Every function of goccl.h, goccl_moe.h and goccl_primitive.h that calls Go: DOOR(name, parameters, arguments). The
// includer defines DOOR. Arguments lose their const, which the Go functions' declarations do not have.

// goccl.h
DOOR(device_open, (int32_t kind, int32_t index, goccl_device *device), (kind, index, device))
DOOR(device_current, (int32_t hint, goccl_device *device), (hint, device))
DOOR(device_count, (int32_t kind, int32_t *count), (kind, count))
DOOR(device_id, (goccl_device device, int32_t *kind, int32_t *index), (device, kind, index))
DOOR(device_capability, (goccl_device device, int32_t *major, int32_t *minor, int32_t *numa_node),
     (device, major, minor, numa_node))
DOOR(alloc, (goccl_device device, uint64_t size, void **ptr), (device, size, ptr))
DOOR(free, (void *ptr), (ptr))
DOOR(copy_in, (goccl_device device, void *dst, const void *src, uint64_t size), (device, dst, (void *)src, size))
DOOR(copy_out, (goccl_device device, void *dst, const void *src, uint64_t size), (device, dst, (void *)src, size))
DOOR(stream_create, (goccl_device device, uintptr_t *stream), (device, stream))
DOOR(stream_synchronize, (goccl_device device, uintptr_t stream, int64_t timeout_ns), (device, stream, timeout_ns))
DOOR(stream_destroy, (goccl_device device, uintptr_t stream), (device, stream))
DOOR(unique_id_create, (int64_t timeout_ns, goccl_unique_id *id), (timeout_ns, id))
DOOR(unique_id_close, (const goccl_unique_id *id), ((goccl_unique_id *)id))
DOOR(bootstrap_join_id, (const goccl_unique_id *id, int32_t rank, int32_t size, int64_t timeout_ns,
     goccl_bootstrap *bootstrap),
     ((goccl_unique_id *)id, rank, size, timeout_ns, bootstrap))
DOOR(bootstrap_join_address, (const char *address, int32_t rank, int32_t size, int64_t timeout_ns,
     goccl_bootstrap *bootstrap),
     ((char *)address, rank, size, timeout_ns, bootstrap))
DOOR(bootstrap_join_env, (int64_t timeout_ns, goccl_bootstrap *bootstrap), (timeout_ns, bootstrap))
DOOR(bootstrap_local, (int32_t size, goccl_bootstrap *bootstraps), (size, bootstraps))
DOOR(bootstrap_info, (goccl_bootstrap bootstrap, int32_t *rank, int32_t *size, int32_t *local_rank,
     int32_t *local_size),
     (bootstrap, rank, size, local_rank, local_size))
DOOR(bootstrap_send, (goccl_bootstrap bootstrap, int32_t peer, int32_t tag, const void *data, uint64_t size,
     int64_t timeout_ns),
     (bootstrap, peer, tag, (void *)data, size, timeout_ns))
DOOR(bootstrap_recv, (goccl_bootstrap bootstrap, int32_t peer, int32_t tag, int64_t timeout_ns, void **data,
     uint64_t *size),
     (bootstrap, peer, tag, timeout_ns, data, size))
DOOR(bootstrap_all_gather, (goccl_bootstrap bootstrap, const void *mine, uint64_t size, void *all,
     int64_t timeout_ns),
     (bootstrap, (void *)mine, size, all, timeout_ns))
DOOR(bootstrap_barrier, (goccl_bootstrap bootstrap, int64_t timeout_ns), (bootstrap, timeout_ns))
DOOR(bootstrap_close, (goccl_bootstrap bootstrap), (bootstrap))
DOOR(comm_start, (const goccl_unique_id *id, int32_t rank, int32_t size, goccl_device device,
     const goccl_comm_config *config, goccl_comm *comm),
     ((goccl_unique_id *)id, rank, size, device, (goccl_comm_config *)config, comm))
DOOR(comm_create, (goccl_bootstrap bootstrap, goccl_device device, const goccl_comm_config *config,
     goccl_comm *comm),
     (bootstrap, device, (goccl_comm_config *)config, comm))
DOOR(comm_init_all, (int32_t n, const goccl_device *devices, const goccl_comm_config *config,
     goccl_comm *comms),
     (n, (goccl_device *)devices, (goccl_comm_config *)config, comms))
DOOR(comm_split_start, (goccl_comm comm, int32_t color, int32_t key, const goccl_comm_config *config,
     goccl_comm *child),
     (comm, color, key, (goccl_comm_config *)config, child))
DOOR(comm_shrink_start, (goccl_comm comm, const int32_t *exclude, int32_t n, int32_t abort,
     const goccl_comm_config *config, goccl_comm *child),
     (comm, (int32_t *)exclude, n, abort, (goccl_comm_config *)config, child))
DOOR(comm_unique_id, (goccl_comm comm, int64_t timeout_ns, goccl_unique_id *id), (comm, timeout_ns, id))
DOOR(comm_grow_start, (goccl_comm comm, int32_t size, const goccl_unique_id *id, const goccl_comm_config *config,
     goccl_comm *grown),
     (comm, size, (goccl_unique_id *)id, (goccl_comm_config *)config, grown))
DOOR(comm_suspend_start, (goccl_comm comm), (comm))
DOOR(comm_resume_start, (goccl_comm comm), (comm))
DOOR(comm_memory, (goccl_comm comm, uint64_t *suspendable, uint64_t *persistent, int32_t *suspended),
     (comm, suspendable, persistent, suspended))
DOOR(comm_wait, (goccl_comm comm), (comm))
DOOR(comm_info_get, (goccl_comm comm, goccl_comm_info *info), (comm, info))
DOOR(comm_hash, (goccl_comm comm, uint64_t *hash), (comm, hash))
DOOR(comm_error, (goccl_comm comm), (comm))
DOOR(comm_finalize, (goccl_comm comm), (comm))
DOOR(comm_destroy, (goccl_comm comm), (comm))
DOOR(comm_abort, (goccl_comm comm), (comm))
DOOR(comm_revoke, (goccl_comm comm), (comm))
DOOR(op_create, (goccl_comm comm, uint32_t type, const void *scalar, int32_t on_host, uint32_t *op),
     (comm, type, (void *)scalar, on_host, op))
DOOR(op_destroy, (goccl_comm comm, uint32_t op), (comm, op))
DOOR(records, (const char *format, void **data, uint64_t *size), ((char *)format, data, size))
DOOR(window_register, (goccl_comm comm, void *ptr, uint64_t size, goccl_window *window), (comm, ptr, size, window))
DOOR(flat_register, (goccl_comm comm, void *ptr, uint64_t size, goccl_window *window), (comm, ptr, size, window))
DOOR(flat_wait, (goccl_window window, goccl_flat *flat), (window, flat))
DOOR(window_deregister, (goccl_window window), (window))
DOOR(fusion_create, (goccl_comm comm, const goccl_fusion_config *config, goccl_fusion *fusion),
     (comm, (goccl_fusion_config *)config, fusion))
DOOR(fusion_all_reduce, (goccl_fusion fusion, const goccl_fused_request *request),
     (fusion, (goccl_fused_request *)request))
DOOR(fusion_tune, (goccl_fusion fusion, uint64_t tokens, uint64_t hidden, uint32_t type),
     (fusion, tokens, hidden, type))
DOOR(fusion_destroy, (goccl_fusion fusion), (fusion))
DOOR(put_signal, (goccl_window window, uint64_t offset, const void *src, uint64_t size, int32_t peer,
     int32_t context, int32_t index, uintptr_t stream),
     (window, offset, (void *)src, size, peer, context, index, stream))
DOOR(signal, (goccl_comm comm, int32_t peer, int32_t context, int32_t index, uintptr_t stream),
     (comm, peer, context, index, stream))
DOOR(wait_signal, (goccl_comm comm, int32_t n, const goccl_signal_wait *waits, uintptr_t stream),
     (comm, n, (goccl_signal_wait *)waits, stream))
DOOR(estimate, (const goccl_request *requests, uint64_t n, double *microseconds),
     ((goccl_request *)requests, n, microseconds))
DOOR(notify, (goccl_comm comm, uintptr_t stream, void (*f)(void *), void *arg), (comm, stream, (void *)f, arg))
DOOR(check, (goccl_request *request), (request))
DOOR(submit, (const goccl_request *requests, uint64_t n), ((goccl_request *)requests, n))

// goccl_moe.h
DOOR(moe_bytes, (int32_t ranks, uint64_t tokens, const goccl_moe_shape *shape, uint64_t *bytes),
     (ranks, tokens, (goccl_moe_shape *)shape, bytes))
DOOR(moe_create, (goccl_comm comm, const goccl_moe_size *size, goccl_moe *moe), (comm, (goccl_moe_size *)size, moe))
DOOR(moe_destroy, (goccl_moe moe), (moe))
DOOR(moe_layout, (goccl_moe moe, const goccl_moe_shape *shape, goccl_moe_offsets *offsets),
     (moe, (goccl_moe_shape *)shape, offsets))
DOOR(moe_count, (goccl_moe moe, const goccl_moe_count_args *args), (moe, (goccl_moe_count_args *)args))
DOOR(moe_notify, (goccl_moe moe, const goccl_moe_notify_args *args), (moe, (goccl_moe_notify_args *)args))
DOOR(moe_dispatch, (goccl_moe moe, const goccl_moe_dispatch_args *args), (moe, (goccl_moe_dispatch_args *)args))
DOOR(moe_combine, (goccl_moe moe, const goccl_moe_combine_args *args), (moe, (goccl_moe_combine_args *)args))

// goccl_primitive.h
DOOR(object_close, (goccl_object object), (object))
DOOR(object_serialize, (goccl_object object, void **data, uint64_t *size), (object, data, size))
DOOR(object_device_handle, (goccl_object object, void **data, uint64_t *size), (object, data, size))
DOOR(context_create, (int64_t timeout, int64_t spin_limit, goccl_object *context), (timeout, spin_limit, context))
DOOR(context_abort, (goccl_object context, const char *reason), (context, (char *)reason))
DOOR(context_error, (goccl_object context), (context))
DOOR(context_recover, (goccl_object context), (context))
DOOR(endpoint_create, (goccl_object context, int32_t transport, goccl_device device, goccl_object *endpoint),
     (context, transport, device, endpoint))
DOOR(endpoint_create_rdma, (goccl_object context, int32_t transport, int32_t adapter, goccl_device device, int32_t port,
     int32_t gid_index, int32_t queue_depth, int32_t send_depth, int32_t receive_depth, goccl_object *endpoint),
     (context, transport, adapter, device, port, gid_index, queue_depth, send_depth, receive_depth, endpoint))
DOOR(endpoint_deserialize, (const void *data, uint64_t size, goccl_object *endpoint), ((void *)data, size, endpoint))
DOOR(endpoint_info, (goccl_object endpoint, int32_t *transport, int32_t *kind, int32_t *index, int32_t *local),
     (endpoint, transport, kind, index, local))
DOOR(connection_create, (goccl_object context, goccl_object local, goccl_object remote,
     goccl_object *connection),
     (context, local, remote, connection))
DOOR(connection_info, (goccl_object connection, int32_t *transport, int32_t *peer, int32_t *tag),
     (connection, transport, peer, tag))
DOOR(connection_write, (goccl_object connection, goccl_object dst, uint64_t dst_offset, goccl_object src,
     uint64_t src_offset, uint64_t size),
     (connection, dst, dst_offset, src, src_offset, size))
DOOR(connection_atomic_add, (goccl_object connection, goccl_object dst, uint64_t dst_offset, uint64_t delta),
     (connection, dst, dst_offset, delta))
DOOR(connection_update_and_sync, (goccl_object connection, goccl_object dst, uint64_t dst_offset,
     uint64_t *src, uint64_t value),
     (connection, dst, dst_offset, src, value))
DOOR(connection_flush, (goccl_object connection, int64_t timeout), (connection, timeout))
DOOR(memory_register, (goccl_object context, goccl_device device, void *ptr, uint64_t size, uint32_t flags,
     goccl_object *memory),
     (context, device, ptr, size, flags, memory))
DOOR(memory_deserialize, (goccl_object context, const void *data, uint64_t size, goccl_object *memory),
     (context, (void *)data, size, memory))
DOOR(memory_info, (goccl_object memory, uintptr_t *data, uintptr_t *original, uint64_t *size, uint32_t *flags,
     int32_t *local),
     (memory, data, original, size, flags, local))
DOOR(memory_map, (goccl_object memory, goccl_device device, int64_t timeout, uintptr_t *ptr),
     (memory, device, timeout, ptr))
DOOR(semaphore_stub_create, (goccl_object connection, goccl_object *stub), (connection, stub))
DOOR(semaphore_stub_deserialize, (goccl_object context, const void *data, uint64_t size, goccl_object *stub),
     (context, (void *)data, size, stub))
DOOR(semaphore_create, (goccl_object local, goccl_object remote, goccl_object *semaphore), (local, remote, semaphore))
DOOR(semaphore_signal, (goccl_object semaphore), (semaphore))
DOOR(semaphore_poll, (goccl_object semaphore, int32_t *signalled), (semaphore, signalled))
DOOR(semaphore_wait, (goccl_object semaphore, int64_t timeout), (semaphore, timeout))
DOOR(base_memory_channel_create, (goccl_object semaphore, goccl_object *channel), (semaphore, channel))
DOOR(memory_channel_create, (goccl_object semaphore, goccl_object dst, goccl_object src,
     goccl_object packet_buffer, goccl_object *channel),
     (semaphore, dst, src, packet_buffer, channel))
DOOR(switch_channel_create, (goccl_object communicator, goccl_device device, goccl_object memory, int32_t tag,
     int64_t timeout, goccl_object *channel),
     (communicator, device, memory, tag, timeout, channel))
DOOR(channel_run, (goccl_object channel, uint32_t op, uint64_t a, uint64_t b, uint64_t size, uint32_t flag,
     int32_t *signalled),
     (channel, op, a, b, size, flag, signalled))
DOOR(fifo_create, (goccl_object context, goccl_device device, int32_t size, goccl_object *fifo),
     (context, device, size, fifo))
DOOR(fifo_poll, (goccl_object fifo, goccl_trigger *trigger, int32_t *found), (fifo, trigger, found))
DOOR(fifo_pop, (goccl_object fifo), (fifo))
DOOR(fifo_size, (goccl_object fifo, int32_t *size), (fifo, size))
DOOR(proxy_service_create, (goccl_object context, goccl_device device, int32_t fifo_size,
     goccl_object *service),
     (context, device, fifo_size, service))
DOOR(proxy_service_start, (goccl_object service), (service))
DOOR(proxy_service_stop, (goccl_object service), (service))
DOOR(proxy_service_add_semaphore, (goccl_object service, goccl_object semaphore, uint32_t *id),
     (service, semaphore, id))
DOOR(proxy_service_build_semaphore, (goccl_object service, goccl_object communicator, goccl_object connection,
     uint32_t *id),
     (service, communicator, connection, id))
DOOR(proxy_service_add_memory, (goccl_object service, goccl_object memory, uint32_t *id), (service, memory, id))
DOOR(proxy_service_remove_semaphore, (goccl_object service, uint32_t id), (service, id))
DOOR(proxy_service_remove_memory, (goccl_object service, uint32_t id), (service, id))
DOOR(base_port_channel_create, (goccl_object service, uint32_t semaphore, goccl_object *channel),
     (service, semaphore, channel))
DOOR(port_channel_create, (goccl_object service, uint32_t semaphore, uint32_t dst, uint32_t src,
     goccl_object *channel),
     (service, semaphore, dst, src, channel))
DOOR(communicator_create, (goccl_bootstrap bootstrap, goccl_object context, goccl_object *communicator),
     (bootstrap, context, communicator))
DOOR(communicator_connect, (goccl_object communicator, int32_t transport, goccl_device device, int32_t rank,
     int32_t tag, goccl_object *future),
     (communicator, transport, device, rank, tag, future))
DOOR(communicator_connect_endpoint, (goccl_object communicator, goccl_object endpoint, int32_t rank,
     int32_t tag, goccl_object *future),
     (communicator, endpoint, rank, tag, future))
DOOR(communicator_send_memory, (goccl_object communicator, goccl_object memory, int32_t rank, int32_t tag,
     goccl_object *future),
     (communicator, memory, rank, tag, future))
DOOR(communicator_recv_memory, (goccl_object communicator, int32_t rank, int32_t tag, goccl_object *future),
     (communicator, rank, tag, future))
DOOR(communicator_build_semaphore, (goccl_object communicator, goccl_object connection, int32_t rank,
     int32_t tag, goccl_object *future),
     (communicator, connection, rank, tag, future))
DOOR(future_wait, (goccl_object future, int64_t timeout, goccl_object *object), (future, timeout, object))
DOOR(kernel_compile, (goccl_device device, int32_t major, int32_t minor, const char *source,
     uint64_t source_size, const char *name, const char *const *options, int32_t noptions,
     const char *const *dirs, int32_t ndirs, void **image, uint64_t *size),
     (device, major, minor, (char *)source, source_size, (char *)name, (char **)options, noptions,
     (char **)dirs, ndirs, image, size))
DOOR(module_load, (goccl_device device, const void *image, uint64_t size, goccl_object *module),
     (device, (void *)image, size, module))
DOOR(module_function, (goccl_object module, const char *name, goccl_object *function), (module, (char *)name, function))
DOOR(kernel_launch, (goccl_object function, uintptr_t stream, const uint32_t shape[9], uint32_t shared,
     const void *params, uint64_t size),
     (function, stream, (uint32_t *)shape, shared, (void *)params, size))
DOOR(plan_compile, (const void *document, uint64_t size, void **plan, uint64_t *plan_size),
     ((void *)document, size, plan, plan_size))
DOOR(plan_build, (const char *name, const void *options, uint64_t size, void **plan, uint64_t *plan_size),
     ((char *)name, (void *)options, size, plan, plan_size))
DOOR(plan_check, (const void *plan, uint64_t size, void **report, uint64_t *report_size),
     ((void *)plan, size, report, report_size))
DOOR(plan_describe, (const void *plan, uint64_t size, void **report, uint64_t *report_size),
     ((void *)plan, size, report, report_size))
DOOR(executor_create, (goccl_bootstrap bootstrap, goccl_device device, int64_t op_timeout,
     goccl_object *executor),
     (bootstrap, device, op_timeout, executor))
DOOR(executor_load_trusted,
     (goccl_object executor, const void *plan, uint64_t size, uint64_t reserve, goccl_object *loaded),
     (executor, (void *)plan, size, reserve, loaded))
DOOR(executor_load, (goccl_object executor, const void *plan, uint64_t size, uint64_t reserve,
     goccl_object *loaded),
     (executor, (void *)plan, size, reserve, loaded))
DOOR(executor_launch, (goccl_object loaded, uintptr_t send, uintptr_t recv, uint64_t message,
     uintptr_t stream, uint32_t type, uint32_t op, uint64_t scalar),
     (loaded, send, recv, message, stream, type, op, scalar))
DOOR(executor_launch_counted, (goccl_object loaded, uintptr_t send, uintptr_t recv, uint64_t message,
     uintptr_t counts, uintptr_t stream, uint32_t type, uint32_t op, uint64_t scalar),
     (loaded, send, recv, message, counts, stream, type, op, scalar))
DOOR(executor_hook, (goccl_object loaded, uint32_t hook, uint64_t *counter), (loaded, hook, counter))
DOOR(executor_register, (goccl_object executor, uintptr_t buffer), (executor, buffer))
DOOR(executor_raise_hook, (goccl_object loaded, uint32_t hook, uint64_t n, uintptr_t stream),
     (loaded, hook, n, stream))
DOOR(executor_await_hook, (goccl_object loaded, uint32_t hook, uint64_t n, uintptr_t stream),
     (loaded, hook, n, stream))
DOOR(executor_error, (goccl_object executor), (executor))
DOOR(executor_abort, (goccl_object executor), (executor))
