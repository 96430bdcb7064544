#include "../nccl/nccl.h"
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#define OK(x) do { ncclResult_t r_ = (x); if (r_) { printf("%s:%d %s: %d %s\n", __FILE__, __LINE__, #x, r_, ncclGetLastError(NULL)); exit(1);} } while (0)
static ncclUniqueId id; static int n = 4;
static void *rank(void *p) {
	int r = (int)(long)p; ncclComm_t c;
	OK(ncclCommInitRank(&c, n, id, r));
	float *a = malloc(4000), *b = malloc(4000);
	for (int i = 0; i < 1000; i++) a[i] = r + i;
	OK(ncclAllReduce(a, b, 1000, ncclFloat, ncclSum, c, NULL));
	for (int i = 0; i < 1000; i++) if (b[i] != n * i + n * (n - 1) / 2) { printf("rank %d wrong at %d: %f\n", r, i, b[i]); exit(1); }
	OK(ncclCommDestroy(c));
	return NULL;
}
int main(void) {
	int v; OK(ncclGetVersion(&v)); printf("version %d\n", v);
	OK(ncclGetUniqueId(&id));
	pthread_t t[8];
	for (long r = 0; r < n; r++) pthread_create(&t[r], NULL, rank, (void *)r);
	for (int r = 0; r < n; r++) pthread_join(t[r], NULL);
	ncclComm_t c[4];
	OK(ncclGetUniqueId(&id));
	OK(ncclGroupStart());
	for (int r = 0; r < n; r++) OK(ncclCommInitRank(&c[r], n, id, r));
	OK(ncclGroupEnd());
	float x[4] = {1, 2, 3, 4};
	OK(ncclGroupStart());
	for (int r = 0; r < n; r++) OK(ncclAllReduce(&x[r], &x[r], 1, ncclFloat, ncclSum, c[r], NULL));
	OK(ncclGroupEnd());
	printf("%f %f %f %f\n", x[0], x[1], x[2], x[3]);
	for (int r = 0; r < n; r++) OK(ncclCommDestroy(c[r]));
	printf("done\n");
	return 0;
}
