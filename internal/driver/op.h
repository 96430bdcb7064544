// The operations of goccl_driver_call. op_list.go is generated from this list (go generate).
// Operations from OP(DriverInit) on are not stream-ordered: they run with the thread's capture mode relaxed.
#define GOCCL_OPS(OP) \
	OP(Launch) OP(Enter) OP(Leave) OP(Copy) OP(Memset8) OP(Memset32) OP(EventRecord) OP(StreamWaitEvent) \
	OP(WriteValue32) OP(WriteValue64) OP(WaitValue32) OP(WaitValue64) OP(MemOps) OP(GraphLaunch) \
	OP(BeginCapture) OP(EndCapture) OP(CaptureInfo) \
	OP(DriverInit) OP(DriverVersion) OP(DeviceCount) OP(DeviceName) OP(DeviceBusID) OP(DeviceMemory) \
	OP(DeviceAttribute) \
	OP(CanAccessPeer) OP(PeerAttribute) OP(ContextRetain) OP(ContextRelease) OP(ContextSynchronize) \
	OP(PriorityRange) OP(CurrentDevice) OP(EnablePeer) \
	OP(MemInfo) OP(MemAlloc) OP(MemFree) OP(PointerInfo) OP(AddressRange) OP(HostAlloc) OP(HostFree) \
	OP(HostRegister) OP(HostUnregister) \
	OP(IPCGet) OP(IPCOpen) OP(IPCClose) OP(VMMAlloc) OP(VMMExport) OP(VMMImport) OP(VMMAccess) OP(VMMFree) \
	OP(VMMReserve) OP(VMMUnreserve) OP(DMABuf) OP(CopyIn) OP(CopyOut) \
	OP(StreamCreate) OP(StreamDestroy) OP(StreamQuery) OP(StreamSynchronize) OP(StreamContext) \
	OP(EventCreate) OP(EventQuery) OP(EventElapsed) OP(EventDestroy) \
	OP(GraphInstantiate) OP(GraphUpload) OP(GraphNodes) OP(GraphExecDestroy) OP(GraphDestroy) \
	OP(ModuleLoad) OP(ModuleUnload) OP(ModuleFunction) OP(ModuleGlobal) OP(FuncGetAttribute) \
	OP(FuncSetAttribute) OP(Occupancy) OP(Checkpoint)
#define GOCCL_OP(name) OP_##name,
enum { GOCCL_OPS(GOCCL_OP) OP_count };
