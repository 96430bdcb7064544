// Package archtest holds the rules of the design's picture as tests: arrows go down only, cgo stays in its three places, and the plan and
// the language for writing plans stay pure. It has no code of its own.
package archtest
