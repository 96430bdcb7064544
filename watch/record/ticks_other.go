//go:build !amd64 && !arm64

package record

func counter() uint64 { return 0 }

func hasCounter() bool { return false }
