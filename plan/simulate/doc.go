// Package simulate runs an execution plan on a modelled machine and predicts its time.
//
// The simulation is discrete-event: every thread block of every rank steps through its ops; transfers reserve ports
// (NVLink, NIC, memory) in segments; signals and packets arrive after a latency; a block continues when the events that
// it waits for have happened. No data is moved, so a plan for thousands of ranks takes seconds. For a plan that hangs,
// the error lists the waiting blocks.
//
// A Machine is plain data, read from JSON. Fit adjusts its parameters to measurements by least squares; Compare reports
// how well it predicts other measurements. Render draws a run. The package is pure: no I/O, no goroutines, no state
// between calls; equal inputs give equal results. Several goroutines may read a value at once.
package simulate
