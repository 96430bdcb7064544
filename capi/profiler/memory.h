// The records of this process: the memory, its communicators, names and sums.
#pragma once

#include "records.h"

extern struct records *records; // NULL before the first communicator

uint64_t memory_now(void); // CLOCK_MONOTONIC in ns

// memory_open takes a slot for a communicator; NULL if there is none, or no memory: then nothing is recorded.
struct record_comm *memory_open(int version, uint64_t id, const char *name, int nodes, int size, int rank);
void memory_close(struct record_comm *c);

// memory_name returns the number of a name, RECORDS_UNNAMED if the table is full.
uint8_t memory_name(const char *name);

void memory_sum_begun(struct record_comm *c, const struct record_op *o);
void memory_sum_ended(struct record_comm *c, const struct record_op *o);
