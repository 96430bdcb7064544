// Package verdict tests, with processes, that a job that hangs or crawls says why: each test injects one fault, and the
// verdict must name it and the right rank.
package verdict
