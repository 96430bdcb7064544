// This is the part of libibverbs' ABI that goccl uses. The declarations are goccl's own, with the names of the library;
// TestLayouts compares them with the headers of Debian's libibverbs-dev.
#ifndef GOCCL_VERBS_API_H
#define GOCCL_VERBS_API_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ibv_device; // opaque
struct ibv_srq;    // not used
struct ibv_context;
struct ibv_pd;
struct ibv_cq;
struct ibv_qp;
struct ibv_wc;
struct ibv_send_wr;
struct ibv_recv_wr;

union ibv_gid { uint8_t raw[16]; uint64_t align; };
struct ibv_gid_entry { union ibv_gid gid; uint32_t gid_index, port_num, gid_type, ndev_ifindex; };

struct ibv_device_attr {
	char fw_ver[64];
	uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr;
	unsigned device_cap_flags;
	int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
	int max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom;
	int atomic_cap;
	int max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp;
	int max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	int max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
};

struct ibv_port_attr {
	int state, max_mtu, active_mtu, gid_tbl_len;
	uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
	uint16_t pkey_tbl_len, lid, sm_lid;
	uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer;
	uint8_t flags;
	uint16_t port_cap_flags2;
};

// The operations that verbs.h calls without a symbol. The others only keep their places.
struct ibv_context_ops {
	void *before_poll[11];
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	int (*req_notify_cq)(struct ibv_cq *, int solicited_only);
	void *before_post[12];
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	void *after_post[5];
};

// Of the following objects only the first fields are declared: libibverbs allocates them.
struct ibv_context {
	struct ibv_device *device;
	struct ibv_context_ops ops;
	int cmd_fd, async_fd, num_comp_vectors;
};
struct ibv_comp_channel { struct ibv_context *context; int fd; };
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};
struct ibv_cq { struct ibv_context *context; };
struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle, qp_num;
};

struct ibv_qp_cap { uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data; };
struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	int qp_type, sq_sig_all;
};

struct ibv_global_route {
	union ibv_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class;
};
struct ibv_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid;
	uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};
struct ibv_qp_attr {
	int qp_state, cur_qp_state, path_mtu, path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	unsigned qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr, alt_ah_attr;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num;
	uint8_t timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout;
	uint32_t rate_limit;
};

struct ibv_sge { uint64_t addr; uint32_t length, lkey; };
struct ibv_send_wr {
	uint64_t wr_id;
	struct ibv_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge, opcode;
	unsigned send_flags;
	uint32_t imm_data;
	union {
		struct { uint64_t remote_addr; uint32_t rkey; } rdma;
		struct { uint64_t remote_addr, compare_add, swap; uint32_t rkey; } atomic;
	} wr;
	uint64_t more[7];
};
struct ibv_recv_wr {
	uint64_t wr_id;
	struct ibv_recv_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
};
struct ibv_wc {
	uint64_t wr_id;
	int status, opcode;
	uint32_t vendor_err, byte_len, imm_data, qp_num, src_qp;
	unsigned wc_flags;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
};
struct ibv_async_event {
	union { struct ibv_cq *cq; struct ibv_qp *qp; int port_num; } element;
	int event_type;
};

// R(symbol, result, parameters) is a required function, O an optional one.
#define GOCCL_VERBS(R, O) \
	R(ibv_fork_init, int, (void)) \
	R(ibv_get_device_list, struct ibv_device **, (int *)) \
	R(ibv_free_device_list, void, (struct ibv_device **)) \
	R(ibv_get_device_name, const char *, (struct ibv_device *)) \
	R(ibv_open_device, struct ibv_context *, (struct ibv_device *)) \
	R(ibv_close_device, int, (struct ibv_context *)) \
	R(ibv_query_device, int, (struct ibv_context *, struct ibv_device_attr *)) \
	R(ibv_query_port, int, (struct ibv_context *, uint8_t, struct ibv_port_attr *)) \
	R(ibv_query_gid, int, (struct ibv_context *, uint8_t, int, union ibv_gid *)) \
	O(_ibv_query_gid_table, ssize_t, (struct ibv_context *, struct ibv_gid_entry *, size_t, uint32_t, size_t)) \
	R(ibv_get_async_event, int, (struct ibv_context *, struct ibv_async_event *)) \
	R(ibv_ack_async_event, void, (struct ibv_async_event *)) \
	R(ibv_alloc_pd, struct ibv_pd *, (struct ibv_context *)) \
	R(ibv_dealloc_pd, int, (struct ibv_pd *)) \
	R(ibv_reg_mr, struct ibv_mr *, (struct ibv_pd *, void *, size_t, int)) \
	O(ibv_reg_mr_iova2, struct ibv_mr *, (struct ibv_pd *, void *, size_t, uint64_t, unsigned)) \
	O(ibv_reg_dmabuf_mr, struct ibv_mr *, (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int)) \
	R(ibv_dereg_mr, int, (struct ibv_mr *)) \
	R(ibv_create_comp_channel, struct ibv_comp_channel *, (struct ibv_context *)) \
	R(ibv_destroy_comp_channel, int, (struct ibv_comp_channel *)) \
	R(ibv_create_cq, struct ibv_cq *, (struct ibv_context *, int, void *, struct ibv_comp_channel *, int)) \
	R(ibv_destroy_cq, int, (struct ibv_cq *)) \
	R(ibv_get_cq_event, int, (struct ibv_comp_channel *, struct ibv_cq **, void **)) \
	R(ibv_ack_cq_events, void, (struct ibv_cq *, unsigned)) \
	R(ibv_create_qp, struct ibv_qp *, (struct ibv_pd *, struct ibv_qp_init_attr *)) \
	R(ibv_modify_qp, int, (struct ibv_qp *, struct ibv_qp_attr *, int)) \
	R(ibv_query_qp, int, (struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *)) \
	R(ibv_destroy_qp, int, (struct ibv_qp *)) \
	R(ibv_wc_status_str, const char *, (int)) \
	R(ibv_event_type_str, const char *, (int))
#endif
