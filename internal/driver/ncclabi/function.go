package ncclabi

// function is a function of the ABI, in abi.h's order (a test compares the names).
type function uint32

const (
	fGetVersion function = iota
	fGetUniqueID
	fCommInitRank
	fCommDestroy
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
	fAlltoAll
	fGather
	fScatter
	fRedOpCreatePreMulSum
	fRedOpDestroy
	numFunctions
)

var functionNames = [numFunctions]string{"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy",
	"ncclCommGetAsyncError", "ncclGroupStart", "ncclGroupEnd", "ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
	"ncclBroadcast", "ncclReduce", "ncclSend", "ncclRecv", "ncclAlltoAll", "ncclGather", "ncclScatter",
	"ncclRedOpCreatePreMulSum", "ncclRedOpDestroy"}

// args carries integers and handles in ABI order.
type args [8]uint64
