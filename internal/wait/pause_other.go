//go:build !amd64 && !arm64

package wait

// pause does nothing: no spin-wait hint is known for this architecture.
func pause(int) {}
