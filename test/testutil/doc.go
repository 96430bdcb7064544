// Package testutil provides what the tests of several packages need: reserved ports, hosts, checks for leftovers,
// and time limits that tolerate a busy machine. It keeps no state.
package testutil
