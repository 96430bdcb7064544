//go:build cgo && linux

#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int failed(void) { return errno ? errno : EIO; }

static int nonblocking(int fd) {
	int flags = fcntl(fd, F_GETFL);
	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

int gocclverbs_open(const char *name, uint64_t *context, int32_t *async_fd) {
	int n = 0, r = ENODEV;
	errno = 0;
	struct ibv_device **list = gocclverbs.ibv_get_device_list(&n);
	if (!list) return failed();
	for (int i = 0; i < n; i++) {
		if (strcmp(gocclverbs.ibv_get_device_name(list[i]), name)) continue;
		struct ibv_context *c = gocclverbs.ibv_open_device(list[i]);
		if (!c) {
			r = failed();
		} else if ((r = nonblocking(c->async_fd))) {
			gocclverbs.ibv_close_device(c);
		} else {
			*context = U64(c);
			*async_fd = c->async_fd;
		}
		break;
	}
	gocclverbs.ibv_free_device_list(list);
	return r;
}

int gocclverbs_close(uint64_t context) { return gocclverbs.ibv_close_device(PTR(struct ibv_context, context)); }

int gocclverbs_query(uint64_t context, int port, struct goccl_attributes *out) {
	struct ibv_context *c = PTR(struct ibv_context, context);
	struct ibv_device_attr d;
	// An old ibv_query_port writes fewer fields.
	struct ibv_port_attr p;
	memset(&d, 0, sizeof d);
	memset(&p, 0, sizeof p);
	int r = gocclverbs.ibv_query_device(c, &d);
	if (!r && port) r = gocclverbs.ibv_query_port(c, (uint8_t)port, &p);
	if (r) return r;
	int reads = d.max_qp_rd_atom < d.max_qp_init_rd_atom ? d.max_qp_rd_atom : d.max_qp_init_rd_atom;
	*out = (struct goccl_attributes){.max_message = p.max_msg_sz, .queue_depth = d.max_qp_wr, .read_depth = reads,
		.mtu = p.active_mtu, .lid = p.lid, .link_layer = p.link_layer};
	return 0;
}

int gocclverbs_gids(uint64_t context, struct goccl_gid *out, int max, int *count) {
	_Static_assert(sizeof(struct goccl_gid) == sizeof(struct ibv_gid_entry), "they are copied as they are");
	if (!gocclverbs._ibv_query_gid_table) return EOPNOTSUPP;
	struct ibv_gid_entry *entries = (struct ibv_gid_entry *)out;
	ssize_t n = gocclverbs._ibv_query_gid_table(PTR(struct ibv_context, context), entries, max, 0, sizeof *entries);
	if (n < 0) return (int)-n;
	*count = (int)n;
	return 0;
}

int gocclverbs_gid(uint64_t context, int port, int index, uint8_t *gid) {
	union ibv_gid g;
	int r = gocclverbs.ibv_query_gid(PTR(struct ibv_context, context), (uint8_t)port, index, &g);
	if (r) return r > 0 ? r : failed();
	memcpy(gid, g.raw, sizeof g.raw);
	return 0;
}

// An event of a queue pair or completion queue names it until it is acknowledged, which is done at once: the caller
// compares the address only.
int gocclverbs_event(uint64_t context, int32_t *type, uint64_t *element) {
	struct ibv_async_event e;
	errno = 0;
	if (gocclverbs.ibv_get_async_event(PTR(struct ibv_context, context), &e)) return failed();
	*type = e.event_type;
	*element = U64(e.element.qp);
	gocclverbs.ibv_ack_async_event(&e);
	return 0;
}

int gocclverbs_alloc_pd(uint64_t context, uint64_t *pd) {
	errno = 0;
	struct ibv_pd *p = gocclverbs.ibv_alloc_pd(PTR(struct ibv_context, context));
	*pd = U64(p);
	return p ? 0 : failed();
}

int gocclverbs_free_pd(uint64_t pd) { return gocclverbs.ibv_dealloc_pd(PTR(struct ibv_pd, pd)); }

static int registered(struct ibv_mr *m, uint64_t *mr, uint32_t *lkey, uint32_t *rkey) {
	if (!m) return failed();
	*mr = U64(m);
	*lkey = m->lkey;
	*rkey = m->rkey;
	return 0;
}

// Optional access flags, such as relaxed ordering, are bits 20 to 29: only ibv_reg_mr_iova2 takes them, and drops those
// that the kernel does not know.
enum { OPTIONAL_ACCESS = 0x3ff00000 };

int gocclverbs_reg(uint64_t pd, uint64_t addr, uint64_t size, int access, uint64_t *mr, uint32_t *lkey,
                    uint32_t *rkey) {
	struct ibv_pd *d = PTR(struct ibv_pd, pd);
	void *p = PTR(void, addr);
	errno = 0;
	if ((access & OPTIONAL_ACCESS) && gocclverbs.ibv_reg_mr_iova2)
		return registered(gocclverbs.ibv_reg_mr_iova2(d, p, size, addr, (unsigned)access), mr, lkey, rkey);
	return registered(gocclverbs.ibv_reg_mr(d, p, size, access & ~OPTIONAL_ACCESS), mr, lkey, rkey);
}

int gocclverbs_reg_dmabuf(uint64_t pd, uint64_t offset, uint64_t size, uint64_t addr, int fd, int access, uint64_t *mr,
                           uint32_t *lkey, uint32_t *rkey) {
	if (!gocclverbs.ibv_reg_dmabuf_mr) return EOPNOTSUPP;
	errno = 0;
	struct ibv_pd *d = PTR(struct ibv_pd, pd);
	return registered(gocclverbs.ibv_reg_dmabuf_mr(d, offset, size, addr, fd, access), mr, lkey, rkey);
}

int gocclverbs_dereg(uint64_t mr) { return gocclverbs.ibv_dereg_mr(PTR(struct ibv_mr, mr)); }

int gocclverbs_channel(uint64_t context, uint64_t *channel, int32_t *fd) {
	errno = 0;
	struct ibv_comp_channel *c = gocclverbs.ibv_create_comp_channel(PTR(struct ibv_context, context));
	if (!c) return failed();
	int r = nonblocking(c->fd);
	if (r) {
		gocclverbs.ibv_destroy_comp_channel(c);
		return r;
	}
	*channel = U64(c);
	*fd = c->fd;
	return 0;
}

int gocclverbs_free_channel(uint64_t channel) {
	return gocclverbs.ibv_destroy_comp_channel(PTR(struct ibv_comp_channel, channel));
}
