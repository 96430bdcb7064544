//go:build race

package goccl_test

const raceEnabled = true
