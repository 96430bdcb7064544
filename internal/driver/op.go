package driver

// op is an operation of goccl_driver_call, in the order of op.h.
type op uint32

// Stream-ordered operations; they are legal while the stream is being captured.
const (
	opLaunch op = iota
	opEnter
	opLeave
	opCopy
	opMemset8
	opMemset32
	opEventRecord
	opStreamWaitEvent
	opWriteValue32
	opWriteValue64
	opWaitValue32
	opWaitValue64
	opGraphLaunch
	opBeginCapture
	opEndCapture
	opCaptureInfo

	// Immediate operations; they run with the thread's capture mode relaxed.
	opDriverInit
	opDriverVersion
	opDeviceCount
	opDeviceName
	opDeviceBusID
	opDeviceMemory
	opDeviceAttribute
	opCanAccessPeer
	opPeerAttribute
	opContextRetain
	opContextRelease
	opContextSynchronize
	opPriorityRange
	opCurrentDevice
	opEnablePeer
	opMemInfo
	opMemAlloc
	opMemFree
	opPointerInfo
	opAddressRange
	opHostAlloc
	opHostFree
	opHostRegister
	opHostUnregister
	opIPCGet
	opIPCOpen
	opIPCClose
	opVMMAlloc
	opVMMExport
	opVMMImport
	opVMMAccess
	opVMMFree
	opVMMReserve
	opVMMUnreserve
	opDMABuf
	opCopyIn
	opCopyOut
	opStreamCreate
	opStreamDestroy
	opStreamQuery
	opStreamSynchronize
	opStreamContext
	opEventCreate
	opEventQuery
	opEventElapsed
	opEventDestroy
	opGraphInstantiate
	opGraphUpload
	opGraphNodes
	opGraphExecDestroy
	opGraphDestroy
	opModuleLoad
	opModuleUnload
	opModuleFunction
	opModuleGlobal
	opFuncGetAttribute
	opFuncSetAttribute
	opOccupancy
	opCount
)

// args holds an operation's integer arguments, then its results.
type args [9]uint64
