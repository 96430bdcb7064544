// Package testutil is what the tests of several packages need of the machine: ports that stay theirs, a look at what processes have left behind, and
// patience with a machine that is busy with something else. It keeps no state.
package testutil
