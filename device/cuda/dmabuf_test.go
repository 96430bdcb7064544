package cuda

import (
	"bytes"
	"syscall"
	"testing"
)

// TestDMABuf looks for a range's bytes at the offset in its DMA-BUF. A GPU's DMA-BUF cannot be mapped by the processor:
// there the test only makes and closes one.
func TestDMABuf(t *testing.T) {
	d := open(t, 0)
	a, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("network"), 1000)
	if err := d.CopyIn(a.Ptr().Add(100), want); err != nil {
		t.Fatal(err)
	}
	fd, offset, err := d.DMABuf(a.Ptr().Add(100), int64(len(want)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if offset != 100 {
		t.Errorf("offset %d", offset)
	}
	mem, err := syscall.Mmap(fd, 0, 1<<14, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Skip("the DMA-BUF cannot be mapped: ", err)
	}
	defer func() { _ = syscall.Munmap(mem) }()
	if !bytes.Equal(mem[offset:][:len(want)], want) {
		t.Error("other bytes are at the offset")
	}
	if _, _, err := d.DMABuf(0x1000, 64); err == nil {
		t.Error("an address that is no memory was exported")
	}
}
