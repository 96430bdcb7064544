// Package ranks starts the ranks of a measurement, one process each, synchronizes them and gathers their numbers.
//
// Every wait is bounded: a step by Wait, the whole run by Options.Timeout. A Group is used by one goroutine.
package ranks
