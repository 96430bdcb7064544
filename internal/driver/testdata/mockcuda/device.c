// The driver itself, devices and contexts. Part of mockcuda.c.

// on reports whether a variable is 1 now.
static int on(const char *name) { return getenv(name) && !strcmp(getenv(name), "1"); }

CUresult cuInit(unsigned f) {
	LOCKED;
	(void)f;
	if (getenv("MOCKCUDA_DEVICES")) devices = atoi(getenv("MOCKCUDA_DEVICES"));
	if (devices > MAXDEV) devices = MAXDEV;
	memory = (size_t)(getenv("MOCKCUDA_MEMORY_MB") ? atoi(getenv("MOCKCUDA_MEMORY_MB")) : 512) << 20;
	for (int i = 0; i < MAXDEV; i++) ctxs[i].dev = i, ctxs[i].def.ctx = &ctxs[i];
	if (devices == 0) return 100;
	trace_open();
	if (getenv("MOCKCUDA_CHECKPOINT")) own = process(getpid(), O_CREAT);
	inited = 1;
	return OK;
}
CUresult cuDriverGetVersion(int *v) { *v = 12080; return OK; }
static const struct {
	int code;
	const char *name, *text;
} errs[] = {{0, "CUDA_SUCCESS", "no error"}, {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	{901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}};
CUresult cuGetErrorName(CUresult c, const char **s) {
	for (size_t i = 0; i < sizeof errs / sizeof *errs; i++) if (errs[i].code == c) { *s = errs[i].name; return OK; }
	*s = NULL;
	return INVALID;
}
CUresult cuGetErrorString(CUresult c, const char **s) {
	for (size_t i = 0; i < sizeof errs / sizeof *errs; i++) if (errs[i].code == c) { *s = errs[i].text; return OK; }
	*s = NULL;
	return INVALID;
}
CUresult cuDeviceGetCount(int *n) { *n = devices; return inited ? OK : UNINIT; }
CUresult cuDeviceGet(CUdevice *d, int o) { *d = o; return o >= 0 && o < devices ? OK : NODEV; }
CUresult cuDeviceGetName(char *s, int n, CUdevice d) { snprintf(s, n, "Mock GPU %d", d); return OK; }
CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice d) { (void)d; *n = memory; return OK; }
CUresult cuDeviceGetPCIBusId(char *s, int n, CUdevice d) { snprintf(s, n, "0000:%02X:00.0", d + 1); return OK; }
CUresult cuDeviceGetAttribute(int *v, int a, CUdevice d) {
	LOCKED;
	if (d < 0 || d >= devices) return NODEV;
	if (a >= 7000 && a < 7008) { *v = (int)live[a - 7000]; return OK; }
	static const struct {
		int a, v;
	} t[] = {{8, 49152}, {10, 32}, {13, 1980000}, {16, 132}, {38, 52428800}, {39, 2048}, {40, 3}, {41, 1}, {75, 9},
		{76, 0}, {81, 233472}, {95, 1}, {97, 232448}, {102, 1}, {103, 1}, {110, 1}, {120, 1}, {122, 1}};
	*v = 0;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) if (t[i].a == a) *v = t[i].v;
	const char *cc = getenv("MOCKCUDA_CAPABILITY");
	if (cc && a == 75) *v = atoi(cc) / 10;
	if (cc && a == 76) *v = atoi(cc) % 10;
	return OK;
}
CUresult cuDeviceCanAccessPeer(int *v, CUdevice a, CUdevice b) { *v = a != b && !on("MOCKCUDA_NO_PEER"); return OK; }
CUresult cuDeviceGetP2PAttribute(int *v, int t, CUdevice a, CUdevice b) {
	*v = a != b && t != 5 && !on("MOCKCUDA_NO_PEER") && (t != 3 || !on("MOCKCUDA_NO_NVLINK"));
	return OK;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
	LOCKED;
	UNSAFE;
	if (d < 0 || d >= devices) return NODEV;
	*c = &ctxs[d], ctxs[d].refs++, live[6]++;
	return OK;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
	LOCKED;
	if (d < 0 || d >= devices || !ctxs[d].refs) return NOCTX;
	if (ctxs[d].refs == 1) needs_idle(&ctxs[d], __func__);
	if (--ctxs[d].refs == 0) ctxs[d].peers = 0;
	live[6]--;
	return OK;
}
CUresult cuCtxGetCurrent(CUcontext *c) { *c = cur; return OK; }
CUresult cuCtxSetCurrent(CUcontext c) { cur = c; return OK; }
CUresult cuCtxGetDevice(CUdevice *d) {
	if (!cur) return 201;
	*d = cur->dev;
	return OK;
}
CUresult cuCtxGetStreamPriorityRange(int *l, int *g) { *l = 0, *g = -5; return OK; }
CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned f) {
	LOCKED;
	(void)f;
	NEEDCTX;
	if (on("MOCKCUDA_NO_PEER") || c == cur) return 217;
	if (cur->peers >> c->dev & 1) return GOCCL_PEER_ALREADY;
	IDLE;
	cur->peers |= 1u << c->dev;
	return OK;
}
CUresult cuThreadExchangeStreamCaptureMode(int *m) { int old = tlsMode; tlsMode = *m, *m = old; return OK; }
