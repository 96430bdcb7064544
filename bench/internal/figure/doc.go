// Package figure prints the figures of a measurement, each with its target, and stores them in a JSON file that names
// machine, commit and command.
//
// A Report belongs to one goroutine.
package figure
