//go:build !race

package goccl_test

// slowness multiplies time limits.
const slowness = 1
