// Package algorithm holds the built-in collectives, their selection by a measured table, and the interface by which a user's own algorithm
// joins them.
package algorithm
