// The order of an owner's work over streams, captures and replays: driver.Order.
#ifndef GOCCL_DRIVER_ORDER_H
#define GOCCL_DRIVER_ORDER_H
#include "api.h"

// A capture that holds work of an order. Its id is never used again, unlike the handles of its graph and nodes: what ended is found by nobody.
struct capture {
	uint64_t id;     // 0: an entry that is free
	uint64_t stream; // the stream of the latest work, by its handle; 0: unknown
	uint64_t tail;   // the node that all work in the capture so far precedes; at first the one that waits for the event, or 0
	uint64_t record; // the node that records the event; it hangs on the tail. 0: none yet
	uint64_t used;   // when it was last looked for
};

enum { ORDER_CAPTURES = 64 }; // as many may be under way at once

// blocks is also read by other threads, hence atomic. The Go side lists the fields that it knows; C alone uses the others.
struct order {
	uint64_t event, word, blocks;
	uint64_t separate; // graphs and other work are not ordered among each other
	uint64_t last, mark; // the latest work that was not captured: its stream, and what stands for it
	uint64_t shared;     // graphs record the event too
	// What the latest enter found: the stream, the entry of its capture + 1, and whether work on the stream follows one node there and nothing else.
	uint64_t now, current, chained;
	uint64_t time;
	struct capture captures[ORDER_CAPTURES];
};

uint64_t goccl_order_enter(CUstream s, struct order *o);
uint64_t goccl_order_leave(CUstream s, struct order *o);
uint64_t goccl_order_launch(uint64_t *a, void *p, struct order *o);
#endif
