package topo_test

import (
	"fmt"
	"log"
	"os"

	"github.com/goccl/goccl/job/topo"
)

// Read a recorded machine and ask it how two GPUs are connected.
func ExampleDecode() {
	b, err := os.ReadFile("testdata/8xh200.json")
	if err != nil {
		log.Fatal(err)
	}
	m, err := topo.Decode(b)
	if err != nil {
		log.Fatal(err)
	}
	l, _ := m.Link(0, 7)
	nic, _ := m.NearestNIC(3)
	fmt.Println(len(m.GPUs), l, m.FullMesh(), nic.Name)
	// Output: 8 NV18 true mlx5_3
}

// The table that `goccl topo` prints, for a machine without a GPU.
func ExampleMachine_WriteTable() {
	m := &topo.Machine{Source: "synthesised", CPU: topo.CPU{Model: "a processor", Threads: 8},
		NUMA: []topo.NUMA{{CPUs: "0-7"}}}
	if err := m.WriteTable(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// a processor, 8 threads, 1 NUMA node [synthesised]
	// No GPU: goccl runs on the host device.
}
