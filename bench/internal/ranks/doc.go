// Package ranks starts the ranks of a measurement, one process each, and lets them meet and compare numbers.
//
// Every wait is bounded: a step by Wait, the whole by Options.Timeout. A Group is used by one goroutine.
package ranks
