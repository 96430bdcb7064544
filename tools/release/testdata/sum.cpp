// Two ranks on the host device add their buffers by NCCL's ABI.
#include <goccl.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>

static void ok(ncclResult_t r) {
	if (r == ncclSuccess) return;
	std::fprintf(stderr, "%s\n", ncclGetLastError(nullptr));
	std::exit(1);
}

int main() {
	constexpr size_t n = 1000;
	ncclComm_t comm[2];
	float *data[2];
	ok(ncclCommInitAll(comm, 2, nullptr));
	for (int r = 0; r < 2; r++) {
		ok(ncclMemAlloc(reinterpret_cast<void **>(&data[r]), n * sizeof(float)));
		for (size_t i = 0; i < n; i++) data[r][i] = float(i + r);
	}
	ok(ncclGroupStart());
	for (int r = 0; r < 2; r++) ok(ncclAllReduce(data[r], data[r], n, ncclFloat, ncclSum, comm[r], nullptr));
	ok(ncclGroupEnd());
	ok(ncclGroupStart());
	for (auto c : comm) ok(ncclCommFinalize(c));
	ok(ncclGroupEnd());
	for (auto &d : data)
		for (size_t i = 0; i < n; i++)
			if (d[i] != float(2 * i + 1)) return std::fprintf(stderr, "element %zu is %g\n", i, d[i]), 1;
	for (auto c : comm) ok(ncclCommDestroy(c));
	std::printf("goccl %s adds\n", goccl_version());
}
