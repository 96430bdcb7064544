//go:build !amd64 && !arm64

package wait

// pause does nothing where no spin-wait hint is known.
func pause(int) {}
