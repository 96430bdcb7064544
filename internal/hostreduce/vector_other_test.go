//go:build !amd64

package hostreduce

func withoutVectors() (restore func()) { return func() {} }
