package records

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// The Go structures have the sizes and offsets of the structures in records.h.
func TestLayout(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("needs gcc: %v", err)
	}
	exe := filepath.Join(t.TempDir(), "layout")
	if out, err := exec.Command("gcc", "-o", exe, "../testdata/layout.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := exec.Command(exe).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	line := func(name string, n uintptr) { fmt.Fprintln(&got, name, n) }
	var o Op
	line("record_op", unsafe.Sizeof(o))
	line("record_op.gpu_ended", unsafe.Offsetof(o.GPUEnded))
	line("record_op.stream", unsafe.Offsetof(o.Stream))
	line("record_op.root", unsafe.Offsetof(o.Root))
	line("record_op.flags", unsafe.Offsetof(o.Flags))
	line("record_op.proxies_done", unsafe.Offsetof(o.ProxiesDone))
	var p Proxy
	line("record_proxy", unsafe.Sizeof(p))
	line("record_proxy.peer", unsafe.Offsetof(p.Peer))
	line("record_proxy.state", unsafe.Offsetof(p.State))
	var s Sum
	line("record_sum", unsafe.Sizeof(s))
	line("record_sum.busy_bytes", unsafe.Offsetof(s.BusyBytes))
	var c rawComm
	line("record_comm", unsafe.Sizeof(c))
	line("record_comm.state", unsafe.Offsetof(c.State))
	line("record_comm.name", unsafe.Offsetof(c.Name))
	line("record_comm.lost", unsafe.Offsetof(c.Lost))
	line("record_comm.sums", unsafe.Offsetof(c.Sums))
	line("record_comm.op", unsafe.Offsetof(c.Op))
	line("record_comm.proxy", unsafe.Offsetof(c.Proxy))
	var h rawHeader
	line("records", unsafe.Sizeof(h))
	line("records.comm_bytes", unsafe.Offsetof(h.CommBytes))
	line("records.refused", unsafe.Offsetof(h.Refused))
	line("records.host", unsafe.Offsetof(h.Host))
	line("records.name", unsafe.Offsetof(h.Name))
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Error(d)
	}
}

// Read refuses input that is shorter than its header says. Damaged records end in an error or a result, never a panic.
func TestHostileRecords(t *testing.T) {
	if _, err := Read(bytes.NewReader(nil)); err == nil {
		t.Error("nothing is read")
	}
	good := header(1)
	good = append(good, make([]byte, int(unsafe.Sizeof(rawComm{})))...)
	if _, err := Read(bytes.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(bytes.NewReader(good[:len(good)-1])); err == nil {
		t.Error("half a communicator is read")
	}
	if _, err := Read(bytes.NewReader(header(1 << 30))); err == nil {
		t.Error("2^30 communicators are read")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		bad := bytes.Clone(good)
		for range 500 {
			bad[random.IntN(len(bad))] = byte(random.Uint32())
		}
		p, err := Read(bytes.NewReader(bad))
		if err != nil {
			continue
		}
		for i := range p.Comms {
			for _, o := range p.Comms[i].Recent {
				p.Text(o.Func)
			}
		}
	}
}

func header(comms uint32) []byte {
	h := rawHeader{Magic: magic, Version: version, CommBytes: uint32(unsafe.Sizeof(rawComm{})), Comms: comms, Names: 1}
	return append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))...)
}
