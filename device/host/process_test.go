package host_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/wait"
)

const childVariable = "GOCCL_HOST_TEST_CHILD"

func TestMain(m *testing.M) {
	if s := os.Getenv(childVariable); s != "" {
		if err := child(s); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child maps the parent's memory (descriptor 3), doubles the data after the two cells and signals the parent.
func child(handle string) error {
	b, err := hex.DecodeString(handle)
	if err != nil {
		return err
	}
	h := device.Handle{Type: device.HandleFD, FD: 3, Owner: device.ID{Kind: device.Host}}
	h.Base = device.Ptr(binary.LittleEndian.Uint64(b))
	h.Size = int64(binary.LittleEndian.Uint64(b[8:]))
	h.Unique = binary.LittleEndian.Uint64(b[16:])
	d, err := host.Open(1)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	a, err := d.Import(h)
	if err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	mem := device.Bytes(a.Ptr(), a.Size())
	toChild, toParent := wait.At(a.(*host.Allocation).Pointer(0)), wait.At(a.(*host.Allocation).Pointer(64))
	err = s.(*host.Stream).Launch("double", 1, func(*host.Block) error {
		l := wait.Limit{Deadline: wait.After(60 * time.Second)}
		for round := uint64(1); round <= rounds; round++ {
			if err := toChild.WaitAtLeast(round, l, nil); err != nil {
				return err
			}
			for i := 128; i < len(mem); i++ {
				mem[i] *= 2
			}
			toParent.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.Synchronize(deadlineContext()); err != nil {
		return err
	}
	return a.Close()
}

const rounds = 100

func TestMemoryAndSignalsBetweenProcesses(t *testing.T) {
	d := open(t, 0)
	a := alloc(t, d, 5000)
	h, err := d.Export(a.Ptr())
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(h.FD), "memfd")
	defer func() { _ = file.Close() }()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], uint64(h.Base))
	binary.LittleEndian.PutUint64(b[8:], uint64(h.Size))
	binary.LittleEndian.PutUint64(b[16:], h.Unique)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVariable+"="+hex.EncodeToString(b[:]))
	c.ExtraFiles = []*os.File{file}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	mem := device.Bytes(a.Ptr(), a.Size())
	toChild, toParent := wait.At(a.(*host.Allocation).Pointer(0)), wait.At(a.(*host.Allocation).Pointer(64))
	l := wait.Limit{Deadline: wait.After(60 * time.Second)}
	for round := uint64(1); round <= rounds; round++ {
		for i := 128; i < len(mem); i++ {
			mem[i] = byte(round) & 0x7f
		}
		toChild.Add(1)
		if err := toParent.WaitAtLeast(round, l, nil); err != nil {
			t.Error(err)
			break
		}
		for i := 128; i < len(mem); i++ {
			if mem[i] != 2*(byte(round)&0x7f) {
				t.Fatalf("round %d: byte %d is %d", round, i, mem[i])
			}
		}
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// An importer that is killed leaks nothing and does not affect the owner.
func TestKilledImporter(t *testing.T) {
	d := open(t, 0)
	fds, maps := openFDs(t), sharedMappings(t)
	a := alloc(t, d, 1<<16)
	h, err := d.Export(a.Ptr())
	if err != nil {
		t.Fatal(err)
	}
	var b [24]byte
	binary.LittleEndian.PutUint64(b[8:], uint64(h.Size))
	file := os.NewFile(uintptr(h.FD), "memfd")
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVariable+"="+hex.EncodeToString(b[:]))
	c.ExtraFiles = []*os.File{file}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // it waits for a signal, or is about to
	if err := c.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	_ = file.Close()
	wait.At(a.(*host.Allocation).Pointer(0)).Add(1)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for range 3000 {
		if openFDs(t) <= fds && sharedMappings(t) <= maps { // less: what earlier tests left is gone
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d descriptors and %d mappings, before it were %d and %d", openFDs(t), sharedMappings(t), fds, maps)
}
