// Package abort has the two halves of how work is ended early: Block, through which the host ends waits of kernels and
// kernels report a wait that they gave up, and Cause, the error that ended the work.
package abort
