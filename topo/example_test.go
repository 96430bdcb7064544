package topo_test

import (
	"fmt"
	"log"
	"os"

	"github.com/goccl/goccl/topo"
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
