package primitive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/testutil"
)

const hostsVariable = "GOCCL_TEST_HOSTS" // set in a process that is one of two ranks, each on a separate host

// acrossHosts runs one rank: every operation of a connection over Ethernet, host semaphores, and operations that must
// fail.
func acrossHosts() error {
	bg, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	env, err := bootstrap.FromEnv()
	if err != nil {
		return err
	}
	bs, err := bootstrap.Join(bg, env)
	if err != nil {
		return err
	}
	defer func() { _ = bs.Close() }()
	if h := bs.Hosts(); h[0] == h[1] {
		return errors.New("two namespaces count as one host")
	}
	dev, err := host.Open(0)
	if err != nil {
		return err
	}
	defer func() { _ = dev.Close() }()
	comm := NewCommunicator(bs, nil)
	defer func() { _ = comm.Close() }()
	const size = 3 << 20
	a, err := dev.Alloc(2 * size)
	if err != nil {
		return err
	}
	register := func(p device.Ptr) (*RegisteredMemory, error) {
		return comm.Context().RegisterMemory(dev, p, size, Flags(IPC, Ethernet))
	}
	src, err := register(a.Ptr())
	if err != nil {
		return err
	}
	dst, err := register(a.Ptr().Add(size))
	if err != nil {
		return err
	}
	me, peer := bs.Rank(), 1-bs.Rank()

	// Shared memory cannot be mapped on another host.
	if _, err := comm.Connect(EndpointConfig{Transport: IPC, Device: dev}, peer, 1).Get(bg); !errors.Is(err, ErrInvalid) {
		return fmt.Errorf("ipc between hosts: %v", err)
	}
	connecting := comm.Connect(EndpointConfig{Transport: Ethernet, Device: dev}, peer, 0)
	comm.SendMemory(dst, peer, 0)
	receiving := comm.RecvMemory(peer, 0)
	conn, err := connecting.Get(bg)
	if err != nil {
		return err
	}
	theirs, err := receiving.Get(bg)
	if err != nil {
		return err
	}
	if _, err := theirs.Map(bg, dev); !errors.Is(err, ErrInvalid) {
		return fmt.Errorf("memory of another host was mapped: %v", err)
	}
	sema, err := comm.BuildSemaphore(conn, peer, 0).Get(bg)
	if err != nil {
		return err
	}
	bell, err := NewHost2HostSemaphore(sema)
	if err != nil {
		return err
	}

	fill(device.Bytes(src.Data(), size), me)
	word := uint64(1)
	if err := errors.Join(conn.Write(theirs, 16, src, 0, size-16), conn.AtomicAdd(theirs, 0, 40),
		conn.AtomicAdd(theirs, 0, 2),
		conn.UpdateAndSync(theirs, 8, &word, 77), conn.Flush(10*time.Second), bell.Signal(), bell.Wait(bg)); err != nil {
		return err
	}
	got, want := device.Bytes(dst.Data(), size), make([]byte, size)
	fill(want, peer)
	if string(got[16:]) != string(want[:size-16]) {
		return errors.New("wrong bytes")
	}
	if sum, v := binary.LittleEndian.Uint64(got), binary.LittleEndian.Uint64(got[8:]); sum != 42 || v != 77 || word != 77 {
		return fmt.Errorf("words %d, %d, %d", sum, v, word)
	}
	return bs.Barrier(bg)
}

// TestConnectionAcrossHosts runs a rank in each of two network namespaces.
func TestConnectionAcrossHosts(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var ranks sync.WaitGroup
	for i, ns := range []string{a, b} {
		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", ns, self)
		cmd.Env = append(os.Environ(), hostsVariable+"=1", fmt.Sprintf("RANK=%d", i), "WORLD_SIZE=2", "LOCAL_RANK=0",
			"LOCAL_WORLD_SIZE=1",
			"MASTER_ADDR=10.207.0.1", "MASTER_PORT=29778", "GOCCL_SECRET=hosts")
		ranks.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("rank %d: %v\n%s", i, err, out)
			}
		})
	}
	ranks.Wait()
}
