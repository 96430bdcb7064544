package cudawire

import "unsafe"

// What the kernels read is in zz_layout.go, from kernels/hosts.
//
//go:generate go run ../../../tools/layouts

// The lengths of the lists of a launch.
const (
	mostItems, mostReductions, mostPeers = len(args{}.item), len(args{}.reduction), len(args{}.peers)
	fewItems, fewReductions, fewPeers    = len(fewArgs{}.item), len(fewArgs{}.reduction), len(fewArgs{}.peers)
)

const counterBytes = int64(unsafe.Sizeof(counters{})) // of one lane of a link
