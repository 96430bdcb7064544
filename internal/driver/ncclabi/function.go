package ncclabi

// function is a function of the ABI, in abi.h's order (a test compares the names).
type function uint32

const (
	fGetVersion function = iota
	fGetUniqueID
	fCommInitRank
	fCommInitAll
	fCommDestroy
	fCommAbort
	fCommGetAsyncError
	fGroupStart
	fGroupEnd
	fAllReduce
	fAllGather
	fReduceScatter
	fBroadcast
	fReduce
	fSend
	fRecv
	fCommFinalize
	fAlltoAll
	fGather
	fScatter
	fMemAlloc
	fMemFree
	fCommWindowRegister
	fCommWindowDeregister
	fRedOpCreatePreMulSum
	fRedOpDestroy
	numFunctions
)

var functionNames = [numFunctions]string{"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclCommInitAll",
	"ncclCommDestroy", "ncclCommAbort",
	"ncclCommGetAsyncError", "ncclGroupStart", "ncclGroupEnd", "ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
	"ncclBroadcast", "ncclReduce", "ncclSend",
	"ncclRecv", "ncclCommFinalize", "ncclAlltoAll", "ncclGather", "ncclScatter", "ncclMemAlloc", "ncclMemFree",
	"ncclCommWindowRegister",
	"ncclCommWindowDeregister", "ncclRedOpCreatePreMulSum", "ncclRedOpDestroy"}

// args carries integers and handles in ABI order.
type args [8]uint64
