package observe

import (
	"strings"

	"github.com/goccl/goccl/watch/record"
)

// ncclNames are NCCL's names of collectives and messages, by goccl's.
var ncclNames = map[string]string{"all_reduce": "AllReduce", "all_gather": "AllGather",
	"reduce_scatter": "ReduceScatter", "broadcast": "Broadcast", "reduce": "Reduce", "all_to_all": "AlltoAll",
	"all_to_all_v": "AlltoAllv", "gather": "Gather", "scatter": "Scatter", "send": "Send", "recv": "Recv"}

// collectiveOfNCCL is goccl's name of a collective or message of NCCL.
func collectiveOfNCCL(name string) string {
	for ours, theirs := range ncclNames {
		if theirs == name {
			return ours
		}
	}
	return name
}

// typeOfNCCL is goccl's name of an element type, like ncclFloat32: its names are PyTorch's or goccl's.
func typeOfNCCL(name string) string { return record.TypeFromTorch(strings.TrimPrefix(name, "nccl")) }
