package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/setting"
)

// manyVariable makes the test binary a process of several ranks: the first, the end, the size of the job, the limit of
// open files and the address.
const manyVariable = "GOCCL_TEST_MANY"

// slowly makes a rank send fewer heartbeats: a thousand ranks share two cores.
func slowly(c *config) { c.heartbeat = 5 * time.Second }

// manyMain joins the ranks, gathers, and waits until each has lost the same rank.
func manyMain(what string) error {
	var first, end, world, files int
	var address string
	if _, err := fmt.Sscan(what, &first, &end, &world, &files, &address); err != nil {
		return err
	}
	limit := unix.Rlimit{Cur: uint64(files), Max: uint64(files)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	ctx := context.Background()
	deaths, errs := make([]int, end-first), make([]error, end-first)
	bs := make([]Bootstrap, end-first)
	all := func(f func(i int, b Bootstrap) error) error {
		var wg sync.WaitGroup
		for i, b := range bs {
			wg.Go(func() { errs[i] = f(i, b) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	if err := all(func(i int, _ Bootstrap) (err error) {
		bs[i], err = JoinAddress(ctx, address, first+i, world, quiet(), WithTimeout(10*time.Minute),
			WithSecret([]byte("test")), slowly)
		return err
	}); err != nil {
		return err
	}
	err := all(func(_ int, b Bootstrap) error {
		got, err := b.AllGather(ctx, partOf(b.Rank(), 50))
		for r := range got {
			if !bytes.Equal(got[r], partOf(r, 50)) {
				return fmt.Errorf("other bytes of rank %d", r)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	fmt.Printf("joined with %d descriptors, at most %d connections and about %d KiB a rank\n", openFDs(), mostLinks(bs),
		(m.HeapInuse+m.StackInuse)/uint64(len(bs))>>10)
	if err := all(func(i int, b Bootstrap) error {
		f := <-b.Failures()
		deaths[i] = f.Rank
		return nil
	}); err != nil {
		return err
	}
	for _, d := range deaths {
		if d != deaths[0] {
			return fmt.Errorf("deaths of ranks %v", deaths)
		}
	}
	fmt.Println("lost", deaths[0])
	select {} // until it is killed
}

// A job of 1,024 ranks comes up where a process may have 256 open files, and a death is named on all of its ranks. Rank
// 0, which serves the root, and rank 1 have a process each; the other processes have many ranks and
// a share of files for each rank.
func TestThousand(t *testing.T) {
	world, groups := 256, 2
	if testing.Short() {
		world = 144 // connections are sparse from 128 on
	}
	if setting.Lenient().Full != "" {
		world, groups = 1024, 6
	}
	const files, share, dies = 256, 48, 1
	address := "127.0.0.1:" + portString(t)
	bounds := []int{0, 1}
	for g := range groups + 1 {
		bounds = append(bounds, 2+g*(world-2)/groups)
	}
	begin := time.Now()
	var cs []*child
	for i, first := range bounds[:len(bounds)-1] {
		end := bounds[i+1]
		c := startChild(t, nil, first, nil, fmt.Sprintf("%s=%d %d %d %d %s", manyVariable, first, end, world,
			max(files, 16+(end-first)*share), address))
		cs = append(cs, c)
	}
	for _, c := range cs {
		t.Logf("the process of rank %d: %s", c.rank, c.expect(t, "joined ", 10*time.Minute))
	}
	t.Logf("%d ranks have joined and gathered after %v", world, time.Since(begin))
	begin = time.Now()
	cs[dies].kill()
	for i, c := range cs {
		if i != dies {
			if line := c.expect(t, "lost ", time.Minute); line != fmt.Sprint("lost ", dies) {
				t.Errorf("rank %d: %s", c.rank, line)
			}
		}
	}
	t.Logf("all have lost rank %d after %v", dies, time.Since(begin))
}
