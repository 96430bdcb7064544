//go:build cgo && linux

#include "table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

enum { RC = 2, RESET = 0, INIT = 1, RTR = 2, RTS = 3, ERR = 6 };
enum { // masks of ibv_modify_qp
	STATE = 1, ACCESS = 1 << 3, PKEY = 1 << 4, PORT = 1 << 5, AV = 1 << 7, MTU = 1 << 8, TIMEOUT = 1 << 9,
	RETRIES = 1 << 10, RNR_RETRIES = 1 << 11, RQ_PSN = 1 << 12, RD_ATOMIC = 1 << 13, RNR_TIMER = 1 << 15,
	SQ_PSN = 1 << 16, DEST_RD_ATOMIC = 1 << 17, DEST_QPN = 1 << 20,
};
enum { LOCAL_WRITE = 1, REMOTE_WRITE = 2, REMOTE_READ = 4 };

static int failed(void) { return errno ? errno : EIO; }

int gocclverbs_create_cq(uint64_t context, int entries, uint64_t channel, uint64_t *cq) {
	errno = 0;
	struct ibv_comp_channel *ch = PTR(struct ibv_comp_channel, channel);
	struct ibv_cq *q = gocclverbs.ibv_create_cq(PTR(struct ibv_context, context), entries, NULL, ch, 0);
	*cq = U64(q);
	return q ? 0 : failed();
}

int gocclverbs_destroy_cq(uint64_t cq) { return gocclverbs.ibv_destroy_cq(PTR(struct ibv_cq, cq)); }

int gocclverbs_notify(uint64_t cq) {
	struct ibv_cq *q = PTR(struct ibv_cq, cq);
	return q->context->ops.req_notify_cq(q, 0);
}

// gocclverbs_ack takes and acknowledges one event of the channel; EAGAIN if there is none.
int gocclverbs_ack(uint64_t channel) {
	struct ibv_cq *cq;
	void *context;
	errno = 0;
	if (gocclverbs.ibv_get_cq_event(PTR(struct ibv_comp_channel, channel), &cq, &context)) return failed();
	gocclverbs.ibv_ack_cq_events(cq, 1);
	return 0;
}

int gocclverbs_poll(uint64_t cq, struct goccl_completion *out, int max) {
	struct ibv_cq *q = PTR(struct ibv_cq, cq);
	struct ibv_wc wc[16];
	int n = q->context->ops.poll_cq(q, max < 16 ? max : 16, wc);
	for (int i = 0; i < n; i++)
		out[i] = (struct goccl_completion){wc[i].wr_id, wc[i].status, wc[i].opcode, wc[i].vendor_err,
			ntohl(wc[i].imm_data)};
	return n;
}

int gocclverbs_create_qp(uint64_t pd, uint64_t cq, int sends, int receives, int inlined, uint64_t *qp, uint32_t *qpn,
                          uint32_t *can_inline) {
	struct ibv_cq *q = PTR(struct ibv_cq, cq);
	struct ibv_qp_init_attr a = {.send_cq = q, .recv_cq = q, .qp_type = RC,
		.cap = {(uint32_t)sends, (uint32_t)receives, 1, 1, (uint32_t)inlined}};
	errno = 0;
	struct ibv_qp *p = gocclverbs.ibv_create_qp(PTR(struct ibv_pd, pd), &a);
	if (!p) return failed();
	*qp = U64(p);
	*qpn = p->qp_num;
	*can_inline = a.cap.max_inline_data;
	return 0;
}

int gocclverbs_destroy_qp(uint64_t qp) { return gocclverbs.ibv_destroy_qp(PTR(struct ibv_qp, qp)); }

static int to_state(uint64_t qp, int state) {
	struct ibv_qp_attr a = {.qp_state = state};
	return gocclverbs.ibv_modify_qp(PTR(struct ibv_qp, qp), &a, STATE);
}

int gocclverbs_reset(uint64_t qp) { return to_state(qp, RESET); }
int gocclverbs_fail(uint64_t qp) { return to_state(qp, ERR); }

int gocclverbs_init(uint64_t qp, int port) {
	struct ibv_qp_attr a = {.qp_state = INIT, .port_num = (uint8_t)port,
		.qp_access_flags = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ};
	return gocclverbs.ibv_modify_qp(PTR(struct ibv_qp, qp), &a, STATE | PKEY | PORT | ACCESS);
}

// gocclverbs_ready takes a queue pair from INIT through RTR (ready to receive) to RTS (ready to send).
int gocclverbs_ready(uint64_t qp, const struct goccl_path *p) {
	struct ibv_qp_attr a = {.qp_state = RTR, .path_mtu = p->mtu, .dest_qp_num = p->qpn, .rq_psn = p->remote_psn,
		.max_dest_rd_atomic = (uint8_t)p->read_depth, .min_rnr_timer = 12};
	a.ah_attr = (struct ibv_ah_attr){.dlid = (uint16_t)p->lid, .sl = (uint8_t)p->service_level,
		.is_global = (uint8_t)p->global, .port_num = (uint8_t)p->port};
	if (p->global) {
		a.ah_attr.grh = (struct ibv_global_route){.sgid_index = (uint8_t)p->gid_index, .hop_limit = 255,
			.traffic_class = (uint8_t)p->traffic_class};
		memcpy(a.ah_attr.grh.dgid.raw, p->gid, sizeof p->gid);
	}
	struct ibv_qp *q = PTR(struct ibv_qp, qp);
	int mask = STATE | AV | MTU | DEST_QPN | RQ_PSN | DEST_RD_ATOMIC | RNR_TIMER;
	int r = gocclverbs.ibv_modify_qp(q, &a, mask);
	if (r) return r;
	a = (struct ibv_qp_attr){.qp_state = RTS, .timeout = (uint8_t)p->timeout, .retry_cnt = (uint8_t)p->retries,
		.rnr_retry = 7, .sq_psn = p->local_psn, .max_rd_atomic = (uint8_t)p->read_depth};
	return gocclverbs.ibv_modify_qp(q, &a, STATE | TIMEOUT | RETRIES | RNR_RETRIES | SQ_PSN | RD_ATOMIC);
}

int gocclverbs_send(uint64_t qp, const struct goccl_work *w) {
	struct ibv_qp *q = PTR(struct ibv_qp, qp);
	struct ibv_sge s = {w->local, w->length, w->lkey};
	struct ibv_send_wr wr = {.wr_id = w->id, .sg_list = &s, .num_sge = w->length ? 1 : 0, .opcode = w->opcode,
		.send_flags = (unsigned)w->flags, .imm_data = htonl(w->imm), .wr.rdma = {w->remote, w->rkey}}, *bad;
	return q->context->ops.post_send(q, &wr, &bad);
}

// gocclverbs_receive posts n receives without memory: each takes the immediate of one write.
int gocclverbs_receive(uint64_t qp, int n, uint64_t id) {
	struct ibv_qp *q = PTR(struct ibv_qp, qp);
	struct ibv_recv_wr wr = {.wr_id = id}, *bad;
	int r = 0;
	for (int i = 0; i < n && !r; i++) r = q->context->ops.post_recv(q, &wr, &bad);
	return r;
}
