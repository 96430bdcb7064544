package ncclabi

// Function is a function of the ABI, in abi.h's order (a test compares the names).
type Function uint32

// The functions of Comm.Enqueue are exported.
const (
	fGetVersion Function = iota
	fGetUniqueID
	fCommInitRank
	fCommDestroy
	fCommGetAsyncError
	fGroupStart
	fGroupEnd
	AllReduce
	AllGather
	ReduceScatter
	Broadcast
	Reduce
	Send
	Recv
	AlltoAll
	Gather
	Scatter
	fRedOpCreatePreMulSum
	fRedOpDestroy
)

// args carries integers and handles, as abi.c reads them.
type args [8]uint64
