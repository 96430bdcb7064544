package cuda

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/device"
)

func addr(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// testPTX adds two vectors of words and has a variable of 256 bytes.
const testPTX = `.version 8.0
.target sm_80
.address_size 64

.global .align 8 .b8 goccl_test_table[256];

.visible .entry goccl_test_add(
	.param .u64 out,
	.param .u64 a,
	.param .u64 b,
	.param .u32 n
)
{
	.reg .pred %p;
	.reg .b32 %r<8>;
	.reg .b64 %d<8>;
	ld.param.u64 %d0, [out];
	ld.param.u64 %d1, [a];
	ld.param.u64 %d2, [b];
	ld.param.u32 %r0, [n];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r4, %r1, %r2, %r3;
	setp.ge.u32 %p, %r4, %r0;
	@%p bra done;
	mul.wide.u32 %d3, %r4, 4;
	add.u64 %d0, %d0, %d3;
	add.u64 %d1, %d1, %d3;
	add.u64 %d2, %d2, %d3;
	ld.global.u32 %r5, [%d1];
	ld.global.u32 %r6, [%d2];
	add.u32 %r7, %r5, %r6;
	st.global.u32 [%d0], %r7;
done:
	ret;
}
`

func addKernel(t testing.TB, d *Device) *Function {
	t.Helper()
	return kernel(t, d, testPTX)
}

// addKernel90 is for attributes that only sm_90 code has.
func addKernel90(t testing.TB, d *Device) *Function {
	t.Helper()
	return kernel(t, d, strings.Replace(testPTX, "sm_80", "sm_90", 1))
}

func kernel(t testing.TB, d *Device, ptx string) *Function {
	t.Helper()
	m, err := d.LoadModule([]byte(ptx))
	if err != nil {
		t.Fatalf("%+v", err)
	}
	f, err := m.Function("goccl_test_add")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// vectors are three arrays of n words on the device: out, a, b.
func vectors(t testing.TB, d *Device, n int) (out, a, b device.Ptr) {
	t.Helper()
	m, err := d.Alloc(int64(12 * n))
	if err != nil {
		t.Fatal(err)
	}
	host := make([]byte, 8*n)
	for i := range n {
		binary.LittleEndian.PutUint32(host[4*i:], uint32(i))
		binary.LittleEndian.PutUint32(host[4*(n+i):], uint32(1000*i))
	}
	out, a, b = m.Ptr(), m.Ptr().Add(int64(4*n)), m.Ptr().Add(int64(8*n))
	if err := d.CopyIn(a, host); err != nil {
		t.Fatal(err)
	}
	return out, a, b
}

func checkSum(t testing.TB, d *Device, out device.Ptr, n int, factor uint32) {
	t.Helper()
	got := make([]byte, 4*n)
	if err := d.CopyOut(got, out); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if v := binary.LittleEndian.Uint32(got[4*i:]); v != factor*uint32(i) {
			t.Fatalf("element %d is %d, not %d", i, v, factor*uint32(i))
		}
	}
}

func TestLaunch(t *testing.T) {
	n, _ := Count()
	for dev := range max(n, 1) {
		d := open(t, dev)
		f := addKernel(t, d)
		const n = 100_000
		out, a, b := vectors(t, d, n)
		s, _ := d.NewStreamPriority(0)
		args := new(Args).Ptr(out).Ptr(a).Ptr(b).Uint32(n)
		if err := errors.Join(s.Launch(f, Launch1D((n+255)/256, 256, 0), args), s.Synchronize(bounded(t))); err != nil {
			t.Fatal(err)
		}
		checkSum(t, d, out, n, 1001)
	}
}

func TestLaunchCluster(t *testing.T) {
	d := open(t, 0)
	if !d.Properties().Clusters {
		t.Skip("no clusters before sm_90")
	}
	f := addKernel90(t, d)
	const n = 2048
	out, a, b := vectors(t, d, n)
	s, _ := d.NewStreamPriority(0)
	cfg := Launch1D(8, 256, 0)
	cfg.Cluster = [3]uint32{4, 1, 1}
	args := new(Args).Ptr(out).Ptr(a).Ptr(b).Uint32(n)
	if err := errors.Join(s.Launch(f, cfg, args), s.Synchronize(bounded(t))); err != nil {
		t.Fatal(err)
	}
	checkSum(t, d, out, n, 1001)
	cfg.Cluster = [3]uint32{3, 1, 1}
	if err := s.Launch(f, cfg, args); err == nil {
		t.Error("8 blocks in clusters of 3")
	}
}

func TestLaunchOverlaps(t *testing.T) {
	d := open(t, 0)
	if d.Properties().Major < 9 {
		t.Skip("needs compute capability 9.0")
	}
	f := addKernel90(t, d)
	const n = 512
	out, a, b := vectors(t, d, n)
	s, _ := d.NewStreamPriority(0)
	cfg := Launch1D(2, 256, 0)
	cfg.Flags = LaunchOverlapPrevious
	if err := errors.Join(s.Memset(out, 0, 4*n), s.Launch(f, cfg, new(Args).Ptr(out).Ptr(a).Ptr(b).Uint32(n)),
		s.Synchronize(bounded(t))); err != nil {
		t.Fatal(err)
	}
	checkSum(t, d, out, n, 1001)
}

func TestLaunchFailures(t *testing.T) {
	d := open(t, 0)
	f := addKernel(t, d)
	s, _ := d.NewStreamPriority(0)
	err := s.Launch(f, Launch1D(1, 4096, 0), new(Args).Ptr(0).Ptr(0).Ptr(0).Uint32(0))
	mustContain(t, err, "cuda:0", "goccl_test_add", "cuLaunchKernel")
	if n, _ := Count(); n > 1 {
		e := open(t, 1)
		u, _ := e.NewStreamPriority(0)
		if err := u.Launch(f, Launch1D(1, 32, 0), nil); !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("a kernel of another GPU: %v", err)
		}
	}
}

func TestLaunchAllocatesNothing(t *testing.T) {
	d := open(t, 0)
	f := addKernel(t, d)
	out, a, b := vectors(t, d, 64)
	s, _ := d.NewStreamPriority(0)
	var args Args
	cfg := Launch1D(1, 64, 0)
	run := func() {
		args.Reset().Ptr(out).Ptr(a).Ptr(b).Uint32(64)
		if err := s.Launch(f, cfg, &args); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations a launch", n)
	}
	if err := s.Synchronize(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

func TestFunctionAttributes(t *testing.T) {
	d := open(t, 0)
	f := addKernel(t, d)
	at, err := f.Attributes()
	if err != nil {
		t.Fatal(err)
	}
	if at.MaxThreads < 128 || at.Registers < 1 || at.PTXVersion < 60 {
		t.Errorf("%+v", at)
	}
	optin := d.Properties().SharedOptin
	if err := f.SetMaxDynamicShared(optin); err != nil {
		t.Fatal(err)
	}
	if err := f.SetMaxDynamicShared(optin + 1<<20); err == nil {
		t.Error("more shared memory than the GPU has")
	}
	if at, _ := f.Attributes(); at.MaxDynamicShared != optin {
		t.Errorf("max dynamic shared %d, set %d", at.MaxDynamicShared, optin)
	}
	s, _ := d.NewStreamPriority(0)
	if err := errors.Join(s.Launch(f, Launch1D(1, 32, uint32(optin)), new(Args).Ptr(0).Ptr(0).Ptr(0).Uint32(0)),
		s.Synchronize(bounded(t))); err != nil {
		t.Error(err)
	}
}

func TestModuleGlobalAndErrors(t *testing.T) {
	d := open(t, 0)
	m, err := d.LoadModule([]byte(testPTX + "\x00"))
	if err != nil {
		t.Fatal(err)
	}
	p, n, err := m.Global("goccl_test_table")
	if err != nil || n != 256 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	got := make([]byte, 256)
	if err := errors.Join(d.CopyIn(p, pattern(256, 2)), d.CopyOut(got, p)); err != nil || got[9] != pattern(256, 2)[9] {
		t.Error(err)
	}
	if _, err := m.Function("absent"); err == nil {
		t.Error("a kernel that is not there")
	} else {
		mustContain(t, err, "absent", "cuModuleGetFunction")
	}
	if _, _, err := m.Global("absent"); err == nil {
		t.Error("a variable that is not there")
	}
	_, err = d.LoadModule([]byte("nonsense"))
	var j *JITError
	if !errors.As(err, &j) {
		t.Errorf("%v", err)
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}

func TestArgsLayout(t *testing.T) {
	a := new(Args).Uint32(1).Ptr(2).Int32(-1).Align(16).Uint64(3)
	b := a.Bytes()
	if len(b) != 40 || b[0] != 1 || b[8] != 2 || binary.LittleEndian.Uint32(b[16:]) != 0xffffffff || b[32] != 3 {
		t.Errorf("% x", b)
	}
	if len(a.Reset().Bytes()) != 0 {
		t.Error("Reset")
	}
}

func BenchmarkLaunch(b *testing.B) {
	d := open(b, 0)
	f := addKernel(b, d)
	s, _ := d.NewStreamPriority(0)
	cfg := Launch1D(1, 32, 0)
	args := new(Args).Ptr(0).Ptr(0).Ptr(0).Uint32(0)
	n := 0
	for b.Loop() {
		if err := s.Launch(f, cfg, args); err != nil {
			b.Fatal(err)
		}
		if n++; n%512 == 0 {
			if err := s.Synchronize(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
