package ncclabi

// Function is a function of the ABI, in abi.h's order.
type Function uint32

// name is the function's in C.
func (f Function) name() string { return names[f] }

// args carries integers and handles, as abi.c reads them.
type args [8]uint64
