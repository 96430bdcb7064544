package record_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/watch/record"
)

// frtrace runs PyTorch's analyzer on the dumps of two ranks; it is skipped where there is no PyTorch.
func frtrace(t *testing.T, folder string) string {
	t.Helper()
	if err := exec.Command("python3", "-c", "import torch.distributed.flight_recorder.fr_trace").Run(); err != nil {
		t.Skip("the python3 in PATH has no PyTorch with torch.distributed.flight_recorder")
	}
	out, err := exec.Command("python3", "-m", "torch.distributed.flight_recorder.fr_trace", folder, "-p",
		record.TorchPrefix).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// PyTorch's analyzer finds the rank that does not call, and the one that calls something else.
func TestPyTorchsAnalyzerReadsTheDumps(t *testing.T) {
	for _, c := range []struct{ name, want string }{{"missing", "missing ranks: {1}"},
		{"types", "COLLECTIVE_TYPE_MISMATCH"}} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			for rank := range 2 {
				_, s := open(t, record.Options{Entries: 16})
				x := record.Open(record.Meta{ID: 7, Name: "world", Rank: rank, Size: 2}, record.Options{Entries: 16})
				defer x.Close(false)
				for n := range uint64(4) {
					r := allReduce(s, 10)
					if n == 3 && rank == 1 {
						if c.name == "missing" {
							continue
						}
						r = &collective.Request{Collective: collective.AllGather, Count: 10, Type: datatype.Float32, Stream: s}
					}
					x.Enqueued(n+1, r)
					if n < 3 {
						x.Started(allReduce(s, 0), n+1, 1)
						x.Ended(allReduce(s, 0), n+1, 1, nil)
					}
				}
				p := record.Here()
				p.Communicators = []*record.Communicator{x.Snapshot(0)}
				if err := record.WriteTorch(folder, p); err != nil {
					t.Fatal(err)
				}
			}
			if files, _ := os.ReadDir(folder); len(files) != 2 {
				t.Fatalf("files %v", files)
			}
			if out := frtrace(t, folder); !strings.Contains(out, c.want) {
				t.Errorf("want %q in\n%s", c.want, out)
			}
		})
	}
}
