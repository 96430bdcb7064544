package hosttest

import "testing"

// portEdits break the direct operations of port channels when the program is called with their names.
var portEdits = []breakage{
	{"signal before the stores", edit{"goccl/port_channel.cuh", "      directCopy(to, from, size, aligned);",
		`      if (mutated("signal before the stores") && (type & triggerFlag) != 0) semaphore.signal(), type = triggerData;
      directCopy(to, from, size, aligned);`}},
	{"direct behind the proxy's back", edit{"goccl/port_channel.cuh", "return loadRelaxed<Scope::gpu>(&asked) <=",
		`return mutated("direct behind the proxy's back") || loadRelaxed<Scope::gpu>(&asked) <=`}},
	{"push not counted", edit{"goccl/port_channel.cuh", "if (order != nullptr && type != triggerSync) maxRelaxed<",
		`if (order != nullptr && type != triggerSync && !mutated("push not counted")) maxRelaxed<`}},
	{"flushed before the flush", edit{"goccl/port_channel.cuh", "uint64_t* done = flushDone;",
		`uint64_t* done = flushDone;
    if (mutated("flushed before the flush")) storeRelease<Scope::gpu>(&order->flushed, position + 1u);`}},
	{"asked below the position", edit{"goccl/port_channel.cuh", "(&order->asked, position + 1)",
		`(&order->asked, position + 1 - mutated("asked below the position"))`}},
	{"flushed one too many", edit{"goccl/port_channel.cuh", "(&order->flushed, position + 1)",
		`(&order->flushed, position + 1 + mutated("flushed one too many"))`}},
	{"flush in vain", edit{"goccl/port_channel.cuh", "return idle() ? statusOk :",
		`return idle() || mutated("flush in vain") ? statusOk :`}},
	{"last bytes lost", edit{"goccl/port_channel.cuh", "(dst + whole, src + whole, size - whole)",
		`(dst + whole, src + whole, (size - whole) * !mutated("last bytes lost"))`}},
	{"beyond the destination", edit{"goccl/port_channel.cuh", "size <= dstSize - dstOffset",
		`(size <= dstSize - dstOffset || mutated("beyond the destination"))`}},
	{"beyond the source", edit{"goccl/port_channel.cuh", "size <= srcSize - srcOffset",
		`(size <= srcSize - srcOffset || mutated("beyond the source"))`}},
	{"stored signals not seen", edit{"goccl/semaphore.cuh", "reached(loadSumAcquire(counter), next)",
		`reached(mutated("stored signals not seen") ? loadAcquire<Scope::sys>(counter) : loadSumAcquire(counter), next)`}},
}

// TestPortChannel runs direct operations among requests to a proxy, and then each part broken.
func TestPortChannel(t *testing.T) {
	t.Parallel()
	headers := brokenHeaders(t, []string{"goccl/port_channel.cuh", "goccl/semaphore.cuh"}, editsOf(portEdits))
	program := buildSanitized(t, "port", "-I"+headers)
	works(t, program)
	notices(t, program, portEdits)
}
