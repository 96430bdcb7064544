// Prints sizes and offsets of libibverbs' structs, by goccl's declarations or by those of its header.
#include <stdio.h>
#include HEADER

#define SIZE(s) printf("sizeof " #s " %zu\n", sizeof(s))
#define AT(s, field) printf(#s "." #field " %zu %zu\n", __builtin_offsetof(s, field), sizeof(((s *)0)->field))

int main(void) {
	SIZE(union ibv_gid);
	SIZE(struct ibv_gid_entry);
	AT(struct ibv_gid_entry, gid_index);
	AT(struct ibv_gid_entry, port_num);
	AT(struct ibv_gid_entry, gid_type);
	SIZE(struct ibv_device_attr);
	AT(struct ibv_device_attr, max_mr_size);
	AT(struct ibv_device_attr, max_qp_wr);
	AT(struct ibv_device_attr, max_cqe);
	AT(struct ibv_device_attr, max_qp_rd_atom);
	AT(struct ibv_device_attr, max_qp_init_rd_atom);
	AT(struct ibv_device_attr, atomic_cap);
	SIZE(struct ibv_port_attr);
	AT(struct ibv_port_attr, state);
	AT(struct ibv_port_attr, active_mtu);
	AT(struct ibv_port_attr, gid_tbl_len);
	AT(struct ibv_port_attr, max_msg_sz);
	AT(struct ibv_port_attr, lid);
	AT(struct ibv_port_attr, link_layer);
	SIZE(struct ibv_context_ops);
	AT(struct ibv_context_ops, poll_cq);
	AT(struct ibv_context_ops, req_notify_cq);
	AT(struct ibv_context_ops, post_send);
	AT(struct ibv_context_ops, post_recv);
	AT(struct ibv_context, ops);
	AT(struct ibv_context, async_fd);
	AT(struct ibv_comp_channel, fd);
	AT(struct ibv_mr, lkey);
	AT(struct ibv_mr, rkey);
	AT(struct ibv_cq, context);
	AT(struct ibv_qp, context);
	AT(struct ibv_qp, qp_num);
	SIZE(struct ibv_qp_init_attr);
	AT(struct ibv_qp_init_attr, send_cq);
	AT(struct ibv_qp_init_attr, recv_cq);
	AT(struct ibv_qp_init_attr, cap);
	AT(struct ibv_qp_init_attr, cap.max_inline_data);
	AT(struct ibv_qp_init_attr, qp_type);
	SIZE(struct ibv_ah_attr);
	AT(struct ibv_ah_attr, grh.sgid_index);
	AT(struct ibv_ah_attr, grh.hop_limit);
	AT(struct ibv_ah_attr, grh.traffic_class);
	AT(struct ibv_ah_attr, dlid);
	AT(struct ibv_ah_attr, sl);
	AT(struct ibv_ah_attr, is_global);
	AT(struct ibv_ah_attr, port_num);
	SIZE(struct ibv_qp_attr);
	AT(struct ibv_qp_attr, qp_state);
	AT(struct ibv_qp_attr, path_mtu);
	AT(struct ibv_qp_attr, rq_psn);
	AT(struct ibv_qp_attr, sq_psn);
	AT(struct ibv_qp_attr, dest_qp_num);
	AT(struct ibv_qp_attr, qp_access_flags);
	AT(struct ibv_qp_attr, ah_attr);
	AT(struct ibv_qp_attr, pkey_index);
	AT(struct ibv_qp_attr, max_rd_atomic);
	AT(struct ibv_qp_attr, max_dest_rd_atomic);
	AT(struct ibv_qp_attr, min_rnr_timer);
	AT(struct ibv_qp_attr, port_num);
	AT(struct ibv_qp_attr, timeout);
	AT(struct ibv_qp_attr, retry_cnt);
	AT(struct ibv_qp_attr, rnr_retry);
	SIZE(struct ibv_sge);
	AT(struct ibv_sge, length);
	AT(struct ibv_sge, lkey);
	SIZE(struct ibv_send_wr);
	AT(struct ibv_send_wr, next);
	AT(struct ibv_send_wr, sg_list);
	AT(struct ibv_send_wr, num_sge);
	AT(struct ibv_send_wr, opcode);
	AT(struct ibv_send_wr, send_flags);
	AT(struct ibv_send_wr, imm_data);
	AT(struct ibv_send_wr, wr.rdma.remote_addr);
	AT(struct ibv_send_wr, wr.rdma.rkey);
	AT(struct ibv_send_wr, wr.atomic.remote_addr);
	AT(struct ibv_send_wr, wr.atomic.compare_add);
	AT(struct ibv_send_wr, wr.atomic.rkey);
	SIZE(struct ibv_recv_wr);
	AT(struct ibv_recv_wr, next);
	AT(struct ibv_recv_wr, num_sge);
	SIZE(struct ibv_wc);
	AT(struct ibv_wc, wr_id);
	AT(struct ibv_wc, status);
	AT(struct ibv_wc, opcode);
	AT(struct ibv_wc, vendor_err);
	AT(struct ibv_wc, imm_data);
	AT(struct ibv_async_event, element.qp);
	AT(struct ibv_async_event, event_type);
	return 0;
}
