// Package launcher sets up what kernels need if they wait for kernels of other ranks. Every engine on a GPU has a
// Launcher.
//
//   - State: memory of the device. It holds all that changes from launch to launch, so that graphs replay launches.
//   - Order: launches run in the order of their calls, on whatever streams.
//   - Abort: the block that every wait of a kernel polls, and reports to.
//   - modules, which Load loads, before any kernel runs. Otherwise the driver would load a kernel at its first use, and
//     might then wait until the device is idle, which never happens while a kernel of another rank waits for this one.
//   - Watch: a goroutine that looks for reports.
//
// # Lifetime
//
// Quiesce raises the abort word and waits until no kernel runs; Free frees all. Between the two the owner frees memory
// that kernels use. If a kernel does not end, Quiesce returns an error and nothing may be freed: unmapping memory that
// a kernel polls would end the process's work on the GPU.
//
// # Threads
//
// Raise, Reported, Unfinished, Busy, Idle and Passed may be called from any goroutine, also after Free. The owner
// serializes launches, and Load, Watch, Quiesce and Free with all else.
package launcher
