package main

import (
	"fmt"
	"html"
	"strings"
)

// room is a box in the picture of the layers; x and width are in columns, of which a floor has twelve.
type room struct {
	x, width     int
	name, legend string
}

// floors are the layers from the top down; a package imports only lower ones (test/archtest).
var floors = []struct {
	colour string
	rooms  []room
}{
	{"#fde7c8", []room{{0, 3, "cmd/goccl", "perf, plan, run, doctor"}, {3, 3, "capi/nccl", "libnccl.so.2: NCCL's ABI"},
		{6, 3, "capi", "libgoccl.so: C ABI"}, {9, 3, "python", "goccl, PyTorch, nccl4py"}}},
	{"#fff6b8", []room{{0, 12, "goccl", "Comm: collectives, groups, errors, abort, split, shrink"}}},
	{"#d6ecd2", []room{{0, 3, "engine/nvlink", "collectives on GPUs"}, {3, 3, "engine/shm", "on the host device"},
		{6, 3, "plan/executor", "runs a plan"}, {9, 3, "collective", "requests, selection"}}},
	{"#cfe5f5", []room{{0, 8, "primitive", "endpoints, channels, semaphores, proxies"},
		{8, 2, "plan", "codec, verifier"}, {10, 2, "plan/dsl", "writes a plan"}}},
	{"#e3dcf2", []room{{0, 3, "job/bootstrap", "ranks, joining, deaths"},
		{3, 3, "job/share", "peers' memory, mapped once"},
		{6, 3, "transport", "how bytes move: ipc, tcp"}, {9, 3, "job/topo", "GPUs, links, NICs"}}},
	{"#f3d9de", []room{{0, 4, "device/host", "shared memory, no GPU"}, {4, 4, "device/cuda", "memory, streams, launches"},
		{8, 4, "kernels", "CUDA sources and images"}}},
	{"#e6e6e6", []room{{0, 12, "internal/driver", "opens libcuda, NVML and NVRTC at run time"}}},
}

func drawHouse() []byte {
	const column, high, gap, margin = 74, 52, 10, 12
	width, height := 12*column+2*margin, len(floors)*(high+gap)-gap+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, width, height)
	for i, f := range floors {
		y := margin + i*(high+gap)
		for _, r := range f.rooms {
			x, w := margin+r.x*column, r.width*column
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#777777"/>`+"\n", x+3, y, w-6,
				high, f.colour)
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" font-weight="bold" font-size="15">%s</text>`+"\n", x+w/2,
				y+21, html.EscapeString(r.name))
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#333333">%s</text>`+"\n", x+w/2, y+40,
				html.EscapeString(r.legend))
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}
