package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/test/commtest"
)

// hostMemory joins ranks that are processes through host memory. Their probe compares what each has written into the
// arenas of the others. Afterwards a second engine, which probes nothing, is made beside the first.
func hostMemory(k *commtest.Process) (err error) {
	for range 2 {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		e, err := nvlink.New(ctx, nvlink.Config{Job: collective.Job{Bootstrap: k.Boot, Device: k.Device}})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		if pairs, worst := e.Links(); worst != nvlink.HostMemory || len(pairs) != k.Size*(k.Size-1)/2 {
			return fmt.Errorf("links: %v, worst %v", pairs, worst)
		}
	}
	return nil
}

func TestOnMockHostMemoryOfProcesses(t *testing.T) {
	commtest.NeedMock(t)
	for _, variable := range []string{"NCCL_P2P_DISABLE", "MOCKCUDA_DEAF_PEER"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "1")
			commtest.Start(t, commtest.Task{Do: "host memory", Size: 3, CUDA: true, Victim: -1}).Await("done",
				commtest.Everyone(3), time.Minute)
		})
	}
}

// With no other link kind left, the ranks of a host are joined by the network, as if each were a host.
func TestOnMockNetworkIsTheLastLink(t *testing.T) {
	for _, variables := range [][]string{{"GOCCL_LINK=net"}, {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"}} {
		t.Run(variables[0], func(t *testing.T) {
			for _, v := range variables {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			for r, c := range commtest.OnMock(t, 3, nil) {
				if own := fmt.Sprintf("Mock GPU %d,", r); !strings.HasPrefix(c.Table(), own) { // else of several GPUs
					t.Errorf("rank %d: its engine inside the host has the table %q, want one of %s", r, c.Table(), own)
				}
			}
		})
	}
}
