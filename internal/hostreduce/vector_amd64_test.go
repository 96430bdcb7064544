package hostreduce

// withoutVectors makes every reduction take the way of a processor without vector kernels, until the function that it returns is called.
func withoutVectors() (restore func()) {
	all := vectorKernels
	clear(vectorKernels[:])
	return func() { vectorKernels = all }
}
