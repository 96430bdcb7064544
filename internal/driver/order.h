// The order of an owner's work across streams, captures and graph launches: driver.Order.
#ifndef GOCCL_DRIVER_ORDER_H
#define GOCCL_DRIVER_ORDER_H
#include "api.h"

// A capture that holds work of an order. Its id is never reused, unlike the handles of its graph and nodes, so a lookup
// never finds an ended capture.
struct capture {
	uint64_t id;     // 0: a free entry
	uint64_t stream; // the stream of the latest work, by handle; 0: unknown
	uint64_t tail;   // follows all work in the capture so far; at first the node that waits for the event, or 0
	uint64_t record; // the node that records the event; it depends on the tail. 0: none yet
	uint64_t used;   // time of the last lookup
};

enum { ORDER_CAPTURES = 64 }; // maximum number of concurrent captures

// Other threads also read blocks, so it is atomic. The Go side declares the fields that it uses; only C uses the
// others.
struct order {
	uint64_t event, word, blocks;
	uint64_t separate; // graphs and other work are not ordered; UNORDERED: nor is work in one capture
	uint64_t last, mark; // the latest work that was not captured: its stream and its mark
	uint64_t shared;     // graphs record the event too
	// State of the latest enter: the stream, the entry of its capture + 1, and whether work on the stream follows
	// exactly one node there.
	uint64_t now, current, chained;
	uint64_t time;
	struct capture captures[ORDER_CAPTURES];
};

uint64_t goccl_order_enter(CUstream s, struct order *o);
uint64_t goccl_order_leave(CUstream s, struct order *o);
#endif
