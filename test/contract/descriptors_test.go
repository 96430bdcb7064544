package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/primitive"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/leak"
)

// descriptors counts the descriptors that communicators hold besides the bootstrap's.
func descriptors(k *commtest.Process) error {
	const comms = 4
	before := leak.Held()
	for range comms {
		c, err := k.Comm(k.Boot)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
	}
	if err := k.Boot.Barrier(context.Background()); err != nil {
		return err
	}
	// Each communicator has its arena; the process has its fd server.
	held := leak.Held()
	each := float64(held.Descriptors-before.Descriptors) / comms
	if each > 1.5 {
		return fmt.Errorf("%.2f descriptors for each communicator of %d ranks\n%s", each, k.Size, held.Detail)
	}
	return k.Boot.Barrier(context.Background())
}

// children opens all that opens descriptors, and looks at what a child gets of them.
func children(k *commtest.Process) (err error) {
	id, err := bootstrap.NewUniqueID(bootstrap.WithInterface("lo"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, id.Close()) }()
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	sub, err := c.Split(context.Background(), 0, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sub.Close()) }()
	u, err := commtest.NewSums(c) // maps buffers of the peer
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	if err := u.Once(3); err != nil {
		return err
	}
	ctx := primitive.NewContext()
	channels := primitive.NewCommunicator(k.Boot, ctx)
	defer func() { err = errors.Join(err, channels.Close(), ctx.Close()) }()
	for tag, t := range []primitive.Transport{primitive.IPC, primitive.Ethernet} {
		if _, err := channels.Connect(primitive.EndpointConfig{Transport: t, Device: k.Device}, 1-k.Rank,
			tag).Get(context.Background()); err != nil {
			return err
		}
	}
	child := exec.Command("/bin/cat")
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	echo, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	// Once cat has answered, the loader has closed the libraries that it opened.
	_, wrote := io.WriteString(in, ".")
	if _, err := io.ReadFull(echo, make([]byte, 1)); err != nil {
		return errors.Join(wrote, err)
	}
	got := opened(child.Process.Pid)
	if err := errors.Join(in.Close(), child.Wait()); err != nil {
		return err
	}
	mine, given := opened(os.Getpid()), opened(os.Getppid())
	if got[0] == "" || len(mine) < 12 {
		return fmt.Errorf("descriptors of the child: %v, of this process: %v", got, mine)
	}
	for fd, what := range got {
		if fd > 2 && given[fd] != what { // this process may have been given some
			err = errors.Join(err, fmt.Errorf("a child has descriptor %d, %s", fd, what))
		}
	}
	if err != nil {
		return err
	}
	return k.Boot.Barrier(context.Background())
}

// opened is what the descriptors of a process are.
func opened(pid int) map[int]string {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	out := map[int]string{}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			out[fd], _ = os.Readlink(filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// TestChildrenInheritNothing: a program that a rank starts gets no descriptor of goccl. It would hide the rank's death,
// and could read its memory.
func TestChildrenInheritNothing(t *testing.T) {
	commtest.Start(t, commtest.Task{Do: "children", Size: 2, Victim: -1}).Await("done", commtest.Everyone(2), time.Minute)
}

// TestDescriptorsOfCommunicators: they do not grow with the number of ranks.
func TestDescriptorsOfCommunicators(t *testing.T) {
	commtest.Start(t, commtest.Task{Do: "descriptors", Size: 8, Victim: -1}).Await("done", commtest.Everyone(8),
		time.Minute)
}
