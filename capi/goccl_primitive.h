/* goccl_primitive.h: the part of goccl's C ABI for primitives, users' kernels and plans. The paragraphs of goccl.h on
 * stability, results, threads and fork apply here too.
 *
 * Objects. Contexts, endpoints, connections, memories, semaphores, channels, services, communicators of primitives,
 * futures, modules, functions and executors are goccl_objects. goccl_object_close closes an object, after all objects
 * made from it are out of use. Closing a context ends every object made from it; closing those afterwards is harmless,
 * and so is closing an object twice.
 *
 * Times are in nanoseconds; 0 is the context's timeout, or 30 s.
 */
#ifndef GOCCL_PRIMITIVE_H
#define GOCCL_PRIMITIVE_H

#include "goccl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t goccl_object;

/* Transports. Memory is registered for a set of them: a mask of bits 1 << transport. */
enum {
	GOCCL_TRANSPORT_UNKNOWN = 0, GOCCL_TRANSPORT_IPC = 1, GOCCL_TRANSPORT_IB0 = 2, GOCCL_TRANSPORT_IB7 = 9,
	GOCCL_TRANSPORT_ETHERNET = 10
};

goccl_result goccl_object_close(goccl_object object);
/* Serializes an endpoint, memory or semaphore stub for the peer; *data must be freed with goccl_release. The bytes may
 * hold secrets: send them over a bootstrap. */
goccl_result goccl_object_serialize(goccl_object object, void **data, uint64_t *size);
/* Returns the struct of a semaphore, channel or fifo in goccl/handle.cuh, for kernels; *data must be freed with
 * goccl_release. */
goccl_result goccl_object_device_handle(goccl_object object, void **data, uint64_t *size);

/* Contexts. spin_limit bounds each wait in a kernel: 0 is GOCCL_SPIN_LIMIT, else 10 minutes; negative is unbounded. */
goccl_result goccl_context_create(int64_t timeout, int64_t spin_limit, goccl_object *context);
/* Ends every wait on host and device; reason may be NULL. */
goccl_result goccl_context_abort(goccl_object context, const char *reason);
/* GOCCL_SUCCESS, or the reason why the context was aborted or a kernel stopped waiting. */
goccl_result goccl_context_error(goccl_object context);
/* Makes an aborted context usable again. None of its kernels may be running. */
goccl_result goccl_context_recover(goccl_object context);

/* Endpoints and connections. */
goccl_result goccl_endpoint_create(
	goccl_object context, int32_t transport, goccl_device device, goccl_object *endpoint);
/* With options of an RDMA adapter, of which 0 and below are the defaults. adapter, if it is not negative, is its number
   instead of the transport's. All endpoints of one adapter in a context have the options of the first. */
goccl_result goccl_endpoint_create_rdma(
	goccl_object context, int32_t transport, int32_t adapter, goccl_device device, int32_t port, int32_t gid_index,
	int32_t queue_depth, int32_t send_depth, int32_t receive_depth, goccl_object *endpoint);
goccl_result goccl_endpoint_deserialize(const void *data, uint64_t size, goccl_object *endpoint);
goccl_result goccl_endpoint_info(
	goccl_object endpoint, int32_t *transport, int32_t *kind, int32_t *index, int32_t *local);
goccl_result goccl_connection_create(
	goccl_object context, goccl_object local, goccl_object remote, goccl_object *connection);
/* peer is -1 while it is not known. */
goccl_result goccl_connection_info(goccl_object connection, int32_t *transport, int32_t *peer, int32_t *tag);
/* Copies asynchronously, in call order. The source must not change until a flush. */
goccl_result goccl_connection_write(goccl_object connection, goccl_object dst, uint64_t dst_offset, goccl_object src,
	uint64_t src_offset, uint64_t size);
goccl_result goccl_connection_atomic_add(
	goccl_object connection, goccl_object dst, uint64_t dst_offset, uint64_t delta);
/* Sets *src, which may be NULL, and the word at dst_offset, after all earlier writes. */
goccl_result goccl_connection_update_and_sync(
	goccl_object connection, goccl_object dst, uint64_t dst_offset, uint64_t *src, uint64_t value);
goccl_result goccl_connection_flush(goccl_object connection, int64_t timeout);

/* Memory. flags is a set of transports. */
goccl_result goccl_memory_register(
	goccl_object context, goccl_device device, void *ptr, uint64_t size, uint32_t flags, goccl_object *memory);
goccl_result goccl_memory_deserialize(goccl_object context, const void *data, uint64_t size, goccl_object *memory);
/* data is the address at which the memory is mapped here, 0 while it is not mapped; original is its address at its
 * owner. */
goccl_result goccl_memory_info(
	goccl_object memory, uintptr_t *data, uintptr_t *original, uint64_t *size, uint32_t *flags, int32_t *local);
goccl_result goccl_memory_map(goccl_object memory, goccl_device device, int64_t timeout, uintptr_t *ptr);

/* Semaphores. signal and wait run on the host. The host can wait only if the counter is in host memory. */
goccl_result goccl_semaphore_stub_create(goccl_object connection, goccl_object *stub);
goccl_result goccl_semaphore_stub_deserialize(
	goccl_object context, const void *data, uint64_t size, goccl_object *stub);
goccl_result goccl_semaphore_create(goccl_object local, goccl_object remote, goccl_object *semaphore);
goccl_result goccl_semaphore_signal(goccl_object semaphore);
goccl_result goccl_semaphore_poll(goccl_object semaphore, int32_t *signalled);
goccl_result goccl_semaphore_wait(goccl_object semaphore, int64_t timeout);

/* Channels. packet_buffer may be 0. */
goccl_result goccl_base_memory_channel_create(goccl_object semaphore, goccl_object *channel);
goccl_result goccl_memory_channel_create(
	goccl_object semaphore, goccl_object dst, goccl_object src, goccl_object packet_buffer, goccl_object *channel);
/* Unicast: a load from every rank, a store to every rank. All ranks call it, with memory of the same size. */
goccl_result goccl_switch_channel_create(goccl_object communicator, goccl_device device, goccl_object memory,
	int32_t tag, int64_t timeout, goccl_object *channel);

/* Operations of a channel that a kernel of the host device would use, run by the calling thread. a is the target
 * offset, b the origin offset. */
enum {
	GOCCL_CHANNEL_SIGNAL = 1, GOCCL_CHANNEL_WAIT = 2, GOCCL_CHANNEL_PUT = 3, GOCCL_CHANNEL_GET = 4,
	GOCCL_CHANNEL_PUT_WITH_SIGNAL = 5, GOCCL_CHANNEL_PUT_WITH_SIGNAL_AND_FLUSH = 6, GOCCL_CHANNEL_FLUSH = 7,
	GOCCL_CHANNEL_PUT_PACKETS = 8, GOCCL_CHANNEL_UNPACK_PACKETS = 9, GOCCL_CHANNEL_POLL = 10,
	GOCCL_CHANNEL_RELAXED_SIGNAL = 11, GOCCL_CHANNEL_RELAXED_WAIT = 12
};
/* *signalled, which may be NULL, is the result of a poll. The relaxed forms order no other accesses; port channels have
 * none. */
goccl_result goccl_channel_run(
	goccl_object channel, uint32_t op, uint64_t a, uint64_t b, uint64_t size, uint32_t flag, int32_t *signalled);

/* Rings of triggers, for proxies that the caller implements. */
typedef struct goccl_trigger {
	uint64_t type, size, src, src_offset, dst, dst_offset, semaphore, position;
} goccl_trigger;
goccl_result goccl_fifo_create(goccl_object context, goccl_device device, int32_t size, goccl_object *fifo);
/* *found is 0 when the ring is empty. The trigger stays until it is popped. */
goccl_result goccl_fifo_poll(goccl_object fifo, goccl_trigger *trigger, int32_t *found);
goccl_result goccl_fifo_pop(goccl_object fifo);
goccl_result goccl_fifo_size(goccl_object fifo, int32_t *size);

/* Proxy services. */
goccl_result goccl_proxy_service_create(
	goccl_object context, goccl_device device, int32_t fifo_size, goccl_object *service);
goccl_result goccl_proxy_service_start(goccl_object service);
/* First carries out all requests that kernels have posted. Returns the first error since the last stop. */
goccl_result goccl_proxy_service_stop(goccl_object service);
goccl_result goccl_proxy_service_add_semaphore(goccl_object service, goccl_object semaphore, uint32_t *id);
/* Does not wait for the peer. The first use of the channel waits. */
goccl_result goccl_proxy_service_build_semaphore(
	goccl_object service, goccl_object communicator, goccl_object connection, uint32_t *id);
goccl_result goccl_proxy_service_add_memory(goccl_object service, goccl_object memory, uint32_t *id);
goccl_result goccl_proxy_service_remove_semaphore(goccl_object service, uint32_t id);
goccl_result goccl_proxy_service_remove_memory(goccl_object service, uint32_t id);
goccl_result goccl_base_port_channel_create(goccl_object service, uint32_t semaphore, goccl_object *channel);
goccl_result goccl_port_channel_create(
	goccl_object service, uint32_t semaphore, uint32_t dst, uint32_t src, goccl_object *channel);

/* Communicators of primitives. Each call returns a future at once; goccl_future_wait returns its object. */
goccl_result goccl_communicator_create(goccl_bootstrap bootstrap, goccl_object context, goccl_object *communicator);
goccl_result goccl_communicator_connect(goccl_object communicator, int32_t transport, goccl_device device, int32_t rank,
	int32_t tag, goccl_object *future);
goccl_result goccl_communicator_connect_endpoint(
	goccl_object communicator, goccl_object endpoint, int32_t rank, int32_t tag, goccl_object *future);
goccl_result goccl_communicator_send_memory(
	goccl_object communicator, goccl_object memory, int32_t rank, int32_t tag, goccl_object *future);
goccl_result goccl_communicator_recv_memory(goccl_object communicator, int32_t rank, int32_t tag, goccl_object *future);
goccl_result goccl_communicator_build_semaphore(
	goccl_object communicator, goccl_object connection, int32_t rank, int32_t tag, goccl_object *future);
/* Returns GOCCL_TIMEOUT when timeout passes before the future is complete; call it again. timeout 0 waits until the
 * future is complete, which always happens. The caller closes the returned object; the future is closed separately. */
goccl_result goccl_future_wait(goccl_object future, int64_t timeout, goccl_object *object);

/* Users' kernels. Compiling needs libnvrtc, which is searched in dirs, $GOCCL_NVRTC, $CUDA_HOME and the system. CUDA's
 * headers are searched beside it and in the same places. Compiling needs no GPU when major is not 0. Results are cached
 * by content. *image must be freed with goccl_release. */
goccl_result goccl_kernel_compile(goccl_device device, int32_t major, int32_t minor, const char *source,
	uint64_t source_size, const char *name, const char *const *options, int32_t noptions, const char *const *dirs,
	int32_t ndirs, void **image, uint64_t *size);
goccl_result goccl_module_load(goccl_device device, const void *image, uint64_t size, goccl_object *module);
goccl_result goccl_module_function(goccl_object module, const char *name, goccl_object *function);
/* shape is grid x y z, block x y z, cluster x y z (0: none). params has the layout in which the kernel declares its
 * parameters. */
goccl_result goccl_kernel_launch(goccl_object function, uintptr_t stream, const uint32_t shape[9], uint32_t shared,
	const void *params, uint64_t size);

/* Programs and plans: JSON in, JSON out; results must be freed with goccl_release. goccl_plan_compile takes a document
 * of package dsl. goccl_plan_build takes the name of a program that ships with goccl. goccl_plan_check verifies a plan
 * and describes it. goccl_plan_describe describes a plan without verifying it: only its structure is checked, and the
 * report says "verified": false. */
goccl_result goccl_plan_compile(const void *document, uint64_t size, void **plan, uint64_t *plan_size);
goccl_result goccl_plan_build(const char *name, const void *options, uint64_t size, void **plan, uint64_t *plan_size);
goccl_result goccl_plan_check(const void *plan, uint64_t size, void **report, uint64_t *report_size);
goccl_result goccl_plan_describe(const void *plan, uint64_t size, void **report, uint64_t *report_size);

/* Executors run plans across the ranks of a bootstrap. Creating one and loading a plan are collective; a plan ends with
 * its executor. op_timeout bounds the time a launch waits for its peers; 0 is GOCCL_OP_TIMEOUT, else none. reserve is
 * the message size, in bytes, for which memory is allocated at loading. */
goccl_result goccl_executor_create(
	goccl_bootstrap bootstrap, goccl_device device, int64_t op_timeout, goccl_object *executor);
goccl_result goccl_executor_load(
	goccl_object executor, const void *plan, uint64_t size, uint64_t reserve, goccl_object *loaded);
/* As goccl_executor_load, for a plan that the caller trusts: it is not verified. Accesses outside of buffers are still
 * prevented, but the plan may hang until the deadline or give a wrong result. */
goccl_result goccl_executor_load_trusted(goccl_object executor, const void *plan, uint64_t size, uint64_t reserve,
					 goccl_object *loaded);
/* message is the size in bytes of the input, or, for an all-gather, of the output. Every rank launches the same plans
 * in the same order. */
goccl_result goccl_executor_launch(goccl_object loaded, uintptr_t send, uintptr_t recv, uint64_t message,
	uintptr_t stream, uint32_t type, uint32_t op, uint64_t scalar);
/* As goccl_executor_launch, for a plan with counts: how many bytes each rank sends to each, a uint64_t for each pair,
 * by sender, then receiver, in device memory; the same on all ranks, and not to be changed before the launch has
 * ended. */
goccl_result goccl_executor_launch_counted(goccl_object loaded, uintptr_t send, uintptr_t recv, uint64_t message,
	uintptr_t counts, uintptr_t stream, uint32_t type, uint32_t op, uint64_t scalar);
/* The address, in *counter, of the counter of a hook of this rank's part of the plan: 8 bytes of device memory, which
 * live as long as the plan. A hook of input: the caller's kernel adds 1 for every launch, by a release, when the input
 * is there. A hook of output: it has grown to n when the output of the n-th launch is there. On the host device, add
 * and look by goccl_executor_raise_hook and goccl_executor_await_hook. */
goccl_result goccl_executor_hook(goccl_object loaded, uint32_t hook, uint64_t *counter);
/* Makes a buffer of this rank known to all peers, so that plans read and write it where it is: a plan with hooks needs
 * that on GPUs for every buffer that peers touch. Collective; buffer is any address in an allocation. */
goccl_result goccl_executor_register(goccl_object executor, uintptr_t buffer);
/* Enqueues, on another stream than the launches: the input that the hook guards is there for the first n launches. */
goccl_result goccl_executor_raise_hook(goccl_object loaded, uint32_t hook, uint64_t n, uintptr_t stream);
/* Enqueues, on another stream than the launches, a wait for the output that the hook guards, of the n-th launch. On the
 * host device. */
goccl_result goccl_executor_await_hook(goccl_object loaded, uint32_t hook, uint64_t n, uintptr_t stream);
/* The first failure of a launch, or the reason why the executor was aborted. */
goccl_result goccl_executor_error(goccl_object executor);
goccl_result goccl_executor_abort(goccl_object executor);

#ifdef __cplusplus
}
#endif
#endif
