//go:build !race

package goccl_test

const raceEnabled = false

const slowness = 1
