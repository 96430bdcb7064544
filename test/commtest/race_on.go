//go:build race

package commtest

// Slowness multiplies time limits.
const Slowness = 3
