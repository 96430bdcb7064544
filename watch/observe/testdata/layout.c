// Prints sizes and places of the records.
#include "../../../capi/profiler/records.h"
#include <stddef.h>
#include <stdio.h>
#define SIZE(s) printf(#s " %zu\n", sizeof(struct s))
#define AT(s, f) printf(#s "." #f " %zu\n", offsetof(struct s, f))
int main(void) {
	SIZE(record_op), AT(record_op, gpu_ended), AT(record_op, stream), AT(record_op, root), AT(record_op, flags);
	AT(record_op, proxies_done);
	SIZE(record_proxy), AT(record_proxy, peer), AT(record_proxy, state);
	SIZE(record_sum), AT(record_sum, busy_bytes);
	SIZE(record_comm), AT(record_comm, state), AT(record_comm, name), AT(record_comm, lost), AT(record_comm, sums);
	AT(record_comm, op), AT(record_comm, proxy);
	SIZE(records), AT(records, comm_bytes), AT(records, refused), AT(records, host), AT(records, name);
}
