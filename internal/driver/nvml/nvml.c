//go:build cgo && linux

#include "nvml.h"
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int explain(const goccl_nvml *t, const char *call, int r, char *text, int size) {
	snprintf(text, size, "%s: %s", call, t->nvmlErrorString ? t->nvmlErrorString(r) : "failed");
	return r;
}
#define MUST(name, ...) \
	if ((r = t->name(__VA_ARGS__))) return explain(t, #name, r, text, size)

static void read_links(const goccl_nvml *t, dev_t_ d, goccl_nvml_gpu *g) {
	if (!t->nvmlDeviceGetNvLinkState) return;
	for (unsigned l = 0; l < GOCCL_NVML_LINKS; l++) {
		int active = 0, type = 0xff;
		pci_t pci;
		memset(&pci, 0, sizeof pci);
		if (t->nvmlDeviceGetNvLinkState(d, l, &active) || !active) continue;
		if (t->nvmlDeviceGetNvLinkRemotePciInfo_v2 && !t->nvmlDeviceGetNvLinkRemotePciInfo_v2(d, l, &pci))
			snprintf(g->remote[l], sizeof g->remote[l], "%.31s", pci.busId);
		if (t->nvmlDeviceGetNvLinkRemoteDeviceType) t->nvmlDeviceGetNvLinkRemoteDeviceType(d, l, &type);
		g->link[l] = type == 0 ? GOCCL_LINK_GPU : type == 2 ? GOCCL_LINK_SWITCH : GOCCL_LINK_OTHER;
	}
}

static int read_all(const goccl_nvml *t, goccl_nvml_info *out, char *text, int size) {
	int r;
	unsigned n = 0;
	dev_t_ dev[GOCCL_NVML_GPUS];
	MUST(nvmlSystemGetDriverVersion, out->driver, sizeof out->driver);
	if (t->nvmlSystemGetCudaDriverVersion_v2) t->nvmlSystemGetCudaDriverVersion_v2(&out->cuda);
	MUST(nvmlDeviceGetCount_v2, &n);
	if (n > GOCCL_NVML_GPUS) n = GOCCL_NVML_GPUS;
	for (unsigned i = 0; i < n; i++) {
		goccl_nvml_gpu *g = &out->gpu[i];
		pci_t pci;
		amount_t mem;
		MUST(nvmlDeviceGetHandleByIndex_v2, i, &dev[i]);
		MUST(nvmlDeviceGetName, dev[i], g->name, sizeof g->name);
		MUST(nvmlDeviceGetUUID, dev[i], g->uuid, sizeof g->uuid);
		MUST(nvmlDeviceGetPciInfo_v3, dev[i], &pci);
		snprintf(g->bus, sizeof g->bus, "%.31s", pci.busId);
		if (!t->nvmlDeviceGetMemoryInfo(dev[i], &mem)) g->memory = mem.total;
		if (t->nvmlDeviceGetCudaComputeCapability) t->nvmlDeviceGetCudaComputeCapability(dev[i], &g->major, &g->minor);
		unsigned mig = 0, pending = 0;
		if (t->nvmlDeviceGetMigMode && !t->nvmlDeviceGetMigMode(dev[i], &mig, &pending)) g->mig = (int)mig;
		read_links(t, dev[i], g);
	}
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < n; j++) {
			out->p2p[i][j] = out->ancestor[i][j] = -1;
			int v;
			if (i == j) continue;
			if (t->nvmlDeviceGetP2PStatus && !t->nvmlDeviceGetP2PStatus(dev[i], dev[j], 1, &v)) out->p2p[i][j] = v;
			if (t->nvmlDeviceGetTopologyCommonAncestor &&
				!t->nvmlDeviceGetTopologyCommonAncestor(dev[i], dev[j], &v))
				out->ancestor[i][j] = v;
		}
	out->count = (int)n;
	return 0;
}

int goccl_nvml_start(const char *path, goccl_nvml *t, char *text, int size) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(text, size, "%s", dlerror());
		return -1;
	}
#define NEED(name, params) \
	if (!(*(void **)&t->name = dlsym(lib, #name))) { \
		snprintf(text, size, "%s has no %s", path, #name); \
		return -1; \
	}
#define MAY(name, params) *(void **)&t->name = dlsym(lib, #name);
	NVML_API(NEED, MAY)
	*(void **)&t->nvmlErrorString = dlsym(lib, "nvmlErrorString");
	int r = t->nvmlInit_v2();
	return r ? explain(t, "nvmlInit_v2", r, text, size) : 0;
}

int goccl_nvml_read(const char *path, goccl_nvml_info *out, char *text, int size) {
	goccl_nvml t;
	memset(out, 0, sizeof *out);
	int r = goccl_nvml_start(path, &t, text, size);
	if (r) return r;
	r = read_all(&t, out, text, size);
	t.nvmlShutdown();
	return r;
}
