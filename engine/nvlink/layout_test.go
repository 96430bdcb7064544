package nvlink

import (
	"bytes"
	"debug/elf"
	"strings"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/kernels"
)

// The kernels read these structs as they lie in memory (kernels/collective/args.cuh, p2p.cuh).
func TestLayout(t *testing.T) {
	var a collectiveArgs
	var p p2pArgs
	var few p2pFewArgs
	for name, got := range map[string][2]uintptr{
		"Args.ticket":     {unsafe.Offsetof(a.ticket), 0},
		"P2PHead.ticket":  {unsafe.Offsetof(p.ticket), 0},
		"P2PHead.window":  {unsafe.Offsetof(p.window), 8},
		"P2PHead":         {unsafe.Sizeof(p.p2pHead), 168},
		"P2PFewArgs.lane": {unsafe.Offsetof(few.lane), 168},
		"P2PFewArgs":      {unsafe.Sizeof(few), 168 + 24*p2pFewMessages},
		"Args.abort":      {unsafe.Offsetof(a.abort), 136},
		"Args.bytes":      {unsafe.Offsetof(a.bytes), 168},
		"Args.rank":       {unsafe.Offsetof(a.rank), 192},
		"Args.root":       {unsafe.Offsetof(a.root), 208},
		"Args.scalar":     {unsafe.Offsetof(a.scalar), 216},
		"Args":            {unsafe.Sizeof(a), 232},
		"P2PArgs.lane":    {unsafe.Offsetof(p.lane), 168},
		"P2PArgs.message": {unsafe.Offsetof(p.message), 424},
		"P2PArgs":         {unsafe.Sizeof(p), 424 + 16*p2pMaxMessages},
		"Lane":            {unsafe.Sizeof(p.lane[0]), 8},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, the kernels have %d", name, got[0], got[1])
		}
	}
}

// Compare with the compiler's layout of the structs: a kernel's parameters are the end of its constant bank.
func TestParameterSizes(t *testing.T) {
	const before = 0x160 // of the bank, on sm_80
	for _, group := range []string{"collective", "direct", "pcie", "probe", "ring"} {
		image, err := kernels.Image(group, 8, 0)
		if err != nil {
			t.Fatal(err)
		}
		image = bytes.Clone(image)
		copy(image[20:24], []byte{byte(elf.EV_CURRENT), 0, 0, 0}) // NVIDIA's version number of a cubin
		f, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range kernels.Names(group) {
			name, want := strings.TrimPrefix(entry, kernels.Entry("")), unsafe.Sizeof(collectiveArgs{})
			switch {
			case strings.HasPrefix(name, "point_to_point_few_"):
				want = unsafe.Sizeof(p2pFewArgs{})
			case name == "point_to_point_stream":
				want = unsafe.Sizeof(streamArgs{})
			case strings.HasPrefix(name, "point_to_point_"):
				want = unsafe.Sizeof(p2pArgs{})
			case strings.HasPrefix(name, "all_to_all_v_device"):
				want = unsafe.Sizeof(allToAllVArgs{})
			case group == "direct":
				want = unsafe.Sizeof(directArgs{})
			case group == "probe":
				want, name = unsafe.Sizeof(probeArgs{}), entry
			}
			bank := f.Section(".nv.constant0." + entry)
			if bank == nil {
				t.Fatalf("%s has no constant bank", name)
			}
			if got := bank.Size - before; got != uint64(want) {
				t.Errorf("%s has %d bytes of parameters, the launch %d", name, got, want)
			}
		}
	}
}

// Arenas are as small as promised.
func TestArenaBytes(t *testing.T) {
	for n := 1; n <= maxRanks; n++ {
		if b := (layout{n: n, ll128: true}).arenaBytes(); b > 75<<20 || n <= 8 && b > 68<<20 {
			t.Errorf("the arena of %d ranks has %d bytes", n, b)
		}
		if b := (layout{n: n, ll128: true, later: true}).arenaBytes(); b > 4<<20 {
			t.Errorf("the arena without pieces of %d ranks has %d bytes", n, b)
		}
	}
}
