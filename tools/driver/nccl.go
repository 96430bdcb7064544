package main

import (
	"fmt"
	"go/format"
	"regexp"
	"strings"
)

var ncclFunctions = regexp.MustCompile(`(?s)[RO]\(nccl(\w+), \(([^)]*)\)\)`)

// writeFunctions returns the numbers and the names of NCCL's functions, in the order of abi.h. Those on a stream are
// exported.
func writeFunctions(abi string) ([]byte, error) {
	var numbers, names strings.Builder
	for i, f := range ncclFunctions.FindAllStringSubmatch(abi, -1) {
		name := f[1]
		if !strings.Contains(f[2], "stream_t") {
			name = "f" + strings.Replace(name, "UniqueId", "UniqueID", 1)
		}
		if i == 0 {
			name += " Function = iota"
		}
		fmt.Fprintln(&numbers, name)
		fmt.Fprintf(&names, "\"nccl%s\",\n", f[1])
	}
	return format.Source(fmt.Appendf(nil, "%s\n\npackage ncclabi\n\n// The functions of Comm.Enqueue are exported.\n"+
		"const (\n%s)\n\nvar names = [...]string{\n%s}\n", notice, &numbers, &names))
}
