//go:build amd64 || arm64

package wait

// pause executes n of the processor's spin-wait hints.
//
//go:noescape
func pause(n int)
