// Package conformance contains the checks that every engine must pass on every device: each collective against its
// definition, with fresh random inputs, poisoned outputs and guards around every buffer.
package conformance
