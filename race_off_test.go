//go:build !race

package goccl_test

// slowness is what time limits are multiplied by.
const slowness = 1
