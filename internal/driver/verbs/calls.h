// The calls that Go makes. Functions that return int return 0 or errno. The names do not share the prefix of the C ABI,
// whose functions libgoccl.so exports.
#ifndef GOCCL_VERBS_CALLS_H
#define GOCCL_VERBS_CALLS_H
#include <stdint.h>

// Mirrored by Go's types: Attributes, Path, Work and Completion.
struct goccl_attributes {
	uint64_t max_message;
	int32_t queue_depth, read_depth, mtu, lid, link_layer, unused;
};
struct goccl_path {
	uint8_t gid[16];
	uint32_t qpn, local_psn, remote_psn;
	int32_t port, gid_index, lid, mtu, service_level, traffic_class, timeout, retries, read_depth, global;
};
struct goccl_work {
	uint64_t id, local, remote;
	uint32_t length, lkey, rkey, imm;
	int32_t opcode, flags;
};
struct goccl_completion {
	uint64_t id;
	int32_t status, opcode;
	uint32_t vendor, imm;
};

int gocclverbs_load(const char *path, char *text, int size);
int gocclverbs_open(const char *name, uint64_t *context, int32_t *async_fd);
int gocclverbs_close(uint64_t context);
int gocclverbs_query(uint64_t context, int port, struct goccl_attributes *out);
// Mirrored by GIDEntry.
struct goccl_gid {
	uint8_t gid[16];
	uint32_t index, port, type, interface;
};
int gocclverbs_gids(uint64_t context, struct goccl_gid *out, int max, int *count);
int gocclverbs_gid(uint64_t context, int port, int index, uint8_t *gid);
int gocclverbs_event(uint64_t context, int32_t *type, uint64_t *element);
int gocclverbs_alloc_pd(uint64_t context, uint64_t *pd);
int gocclverbs_free_pd(uint64_t pd);
int gocclverbs_reg(uint64_t pd, uint64_t addr, uint64_t size, int access, uint64_t *mr, uint32_t *lkey,
                    uint32_t *rkey);
int gocclverbs_reg_dmabuf(uint64_t pd, uint64_t offset, uint64_t size, uint64_t addr, int fd, int access, uint64_t *mr,
                           uint32_t *lkey, uint32_t *rkey);
int gocclverbs_dereg(uint64_t mr);
int gocclverbs_channel(uint64_t context, uint64_t *channel, int32_t *fd);
int gocclverbs_free_channel(uint64_t channel);
int gocclverbs_create_cq(uint64_t context, int entries, uint64_t channel, uint64_t *cq);
int gocclverbs_destroy_cq(uint64_t cq);
int gocclverbs_notify(uint64_t cq);
int gocclverbs_ack(uint64_t channel);
int gocclverbs_poll(uint64_t cq, struct goccl_completion *out, int max);
int gocclverbs_create_qp(uint64_t pd, uint64_t cq, int sends, int receives, int inlined, uint64_t *qp, uint32_t *qpn,
                          uint32_t *can_inline);
int gocclverbs_destroy_qp(uint64_t qp);
int gocclverbs_reset(uint64_t qp);
int gocclverbs_fail(uint64_t qp);
int gocclverbs_init(uint64_t qp, int port);
int gocclverbs_ready(uint64_t qp, const struct goccl_path *p);
int gocclverbs_send(uint64_t qp, const struct goccl_work *w);
int gocclverbs_receive(uint64_t qp, int n, uint64_t id);
const char *gocclverbs_status(int status);
const char *gocclverbs_event_name(int type);
#endif
