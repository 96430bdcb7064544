package hostreduce

// withoutVectors disables the vector kernels until the returned function is called.
func withoutVectors() (restore func()) {
	all := vectorKernels
	clear(vectorKernels[:])
	return func() { vectorKernels = all }
}
