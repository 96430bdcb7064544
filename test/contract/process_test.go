package contract_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
)

func TestMain(m *testing.M) {
	commtest.Main(m, map[string]func(*commtest.Process) error{
		"matrix": commtest.Matrix, "descriptors": descriptors, "children": children, "leave": leave,
		"host memory": hostMemory,
	})
}

func TestProcesses(t *testing.T) {
	commtest.OnDevices(t, func(t *testing.T, tk commtest.Task) {
		tk.Do = "matrix"
		sizes := []int{2, tk.Size}
		switch {
		case tk.CUDA:
		case setting.Lenient().Full != "":
			sizes = []int{2, 3, 8}
		default:
			sizes = []int{3}
		}
		for _, n := range sizes {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				tk := tk
				tk.Size = n
				commtest.Start(t, tk).Await("done", commtest.Everyone(n), time.Minute)
			})
		}
	})
}
