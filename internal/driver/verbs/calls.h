// The calls that Go makes. Functions that return int return 0 or errno. The names do not share the prefix of the C ABI,
// whose functions libgoccl.so exports.
#ifndef GOCCL_VERBS_CALLS_H
#define GOCCL_VERBS_CALLS_H
#include <stdint.h>

// What follows is Attributes, Path, Work, Completion and GIDEntry in Go: zz_layout.go.

// A device and, if a port was asked for, the port.
struct goccl_attributes {
	uint64_t max_message;
	int32_t queue_depth, read_depth, mtu, lid, link_layer, unused;
};
// How a queue pair reaches its peer.
struct goccl_path {
	uint8_t gid[16];
	uint32_t qpn, local_psn, remote_psn;
	int32_t port, gid_index, lid, mtu, service_level, traffic_class, timeout, retries, read_depth, global;
};
// A send work request. local and remote are addresses.
struct goccl_work {
	uint64_t id, local, remote;
	uint32_t length, lkey, rkey, imm;
	int32_t opcode, flags;
};
// The end of a work request. After a failure only id and status hold.
struct goccl_completion {
	uint64_t id;
	int32_t status, opcode;
	uint32_t vendor, imm;
};
// An entry of the device's tables.
struct goccl_gid {
	uint8_t gid[16];
	uint32_t index, port, type, interface;
};

#include "zz_declared.h"
#endif
