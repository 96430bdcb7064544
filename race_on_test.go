//go:build race

package goccl_test

const raceEnabled = true

// slowness is what time limits are multiplied by.
const slowness = 3
