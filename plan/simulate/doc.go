// Package simulate runs an execution plan on a modelled machine and predicts its time.
//
// The simulation is discrete-event: every thread block of every rank steps through its ops; transfers reserve ports (NVLink, NIC, memory) in
// segments, signals and packets arrive after a latency, and a block continues when what it waits for has happened. Nothing is moved, so a
// plan for thousands of ranks takes seconds. A plan that hangs is reported with the blocks that wait.
//
// A Machine is plain data, read from JSON; Fit adjusts its parameters to measurements by least squares, Compare reports how well predictions
// meet others. Render draws a run. The package is pure: no I/O, no goroutines, no state between calls; equal inputs give equal results. Values
// may be read by several goroutines at once.
package simulate
