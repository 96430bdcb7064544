// Package figure prints the figures of a measurement, each beside its target, and keeps them in a JSON file that names machine, commit and command.
//
// A Report belongs to one goroutine.
package figure
