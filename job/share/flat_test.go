package share

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/mockcuda"
	"github.com/goccl/goccl/test/testutil"
)

// TestMain also runs the ranks of TestFlatProcesses and TestBuffersProcesses.
func TestMain(m *testing.M) {
	_, cleanup, err := mockcuda.Setup()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	code := 0
	if s := os.Getenv("GOCCL_SHARE_RANK"); s == "" {
		code = m.Run()
	} else if err := flatChild(s); err != nil {
		fmt.Fprintln(os.Stderr, "rank", s, err)
		code = 1
	}
	cleanup()
	os.Exit(code)
}

const (
	flatUnit  = 4 << 30
	flatRanks = 3
)

// opener opens the device of a rank.
type opener func(rank int) (device.Device, error)

func openHost(rank int) (device.Device, error) { return host.Open(rank) }

func openCUDA(rank int) (device.Device, error) {
	n, err := cuda.Count()
	if err != nil {
		return nil, err
	}
	return cuda.Open(rank % max(n, 1))
}

func onDevices(t *testing.T, f func(t *testing.T, open opener)) {
	t.Run("host", func(t *testing.T) { f(t, openHost) })
	t.Run("cuda", func(t *testing.T) {
		if err := cuda.Available(); err != nil {
			t.Skip(err)
		}
		f(t, openCUDA)
	})
}

// flatRank shares memory of a rank, writes into the memory of all ranks by base and stride alone, and checks its own.
func flatRank(ctx context.Context, b bootstrap.Bootstrap, open opener, size, offset int64,
	shared func(device.Device, device.Ptr) (*Parts, error)) error {
	rank, n := b.Rank(), b.WorldSize()
	dev, err := open(rank)
	if err != nil {
		return err
	}
	defer func() { _ = dev.Close() }()
	a, err := dev.Alloc(size)
	if err != nil {
		return err
	}
	own := a.Ptr().Add(offset)
	all, err := shared(dev, own)
	if err != nil {
		return err
	}
	if all.Stride%flatUnit != 0 || all.Stride < size || len(all.Ptr) != n {
		return fmt.Errorf("stride %d for %d bytes, %d parts", all.Stride, size, len(all.Ptr))
	}
	for p := range n {
		at := all.Base.Add(int64(p) * all.Stride)
		if at != all.Ptr[p] {
			return fmt.Errorf("part %d is at %#x, want %#x", p, all.Ptr[p], at)
		}
		if err := dev.CopyIn(at.Add(int64(rank)), []byte{byte(16*rank + p)}); err != nil {
			return err
		}
	}
	if err := b.Barrier(ctx); err != nil {
		return err
	}
	got, want := make([]byte, n), make([]byte, n)
	for p := range n {
		want[p] = byte(16*p + rank)
	}
	if err := dev.CopyOut(got, own); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("rank %d has %v, want %v (%w)", rank, got, want, err)
	}
	if err := dev.CopyOut(got, all.Ptr[rank]); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("rank %d sees %v in its own flat part, want %v (%w)", rank, got, want, err)
	}
	return errors.Join(b.Barrier(ctx), all.Close(), all.Close(), a.Close(), dev.Close())
}

// Parts are at base + rank·stride whatever the sizes of the ranks' allocations, and pages apart in them.
func TestFlat(t *testing.T) {
	for name, offset := range map[string]func(r int) int64{
		"at the start":  func(int) int64 { return 0 },
		"inside a page": func(int) int64 { return 4096 + 16 },
		"pages apart":   func(r int) int64 { return int64(r)*flatPage + 64 },
	} {
		t.Run(name, func(t *testing.T) {
			onDevices(t, func(t *testing.T, open opener) {
				if err := errors.Join(each(flatRanks, func(r int, b bootstrap.Bootstrap) error {
					shared := func(d device.Device, p device.Ptr) (*Parts, error) {
						return Exchange(t.Context(), b, d, p, 1<<20, Flat(flatUnit))
					}
					return flatRank(t.Context(), b, open, int64(r+2)*flatPage, offset(r), shared)
				})...); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// Windows can be flat too.
func TestFlatWindows(t *testing.T) {
	onDevices(t, func(t *testing.T, open opener) {
		if err := errors.Join(each(flatRanks, func(r int, b bootstrap.Bootstrap) error {
			var all *Windows
			err := flatRank(t.Context(), b, open, 2*flatPage, 64, func(d device.Device, p device.Ptr) (*Parts, error) {
				all = NewWindows(b, 4, d, 20*time.Second, Flat(flatUnit))
				w, err := all.Register(p, flatPage)
				if err != nil {
					return nil, err
				}
				if usable, err := w.Await(); !usable || err != nil {
					return nil, fmt.Errorf("usable %v, %w", usable, err)
				}
				return w.Parts(), nil
			})
			return errors.Join(err, all.Close())
		})...); err != nil {
			t.Fatal(err)
		}
	})
}

// What cannot be flat is refused on all ranks, with the rank and the reason.
func TestFlatRefusals(t *testing.T) {
	onDevices(t, func(t *testing.T, open opener) {
		for r, err := range each(flatRanks, func(r int, b bootstrap.Bootstrap) error {
			shared := func(d device.Device, p device.Ptr) (*Parts, error) {
				return Exchange(t.Context(), b, d, p, 4096, Flat(flatUnit))
			}
			return flatRank(t.Context(), b, open, flatPage, int64(r&1)*64, shared)
		}) {
			if !errors.Is(err, device.ErrUnsupported) || fault.PeerOf(err) != 0 ||
				!strings.Contains(err.Error(), "same offset") {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
	t.Run("legacy", func(t *testing.T) {
		if err := cuda.Available(); err != nil {
			t.Skip(err)
		}
		for r, err := range each(flatRanks, func(r int, b bootstrap.Bootstrap) error {
			d, err := cuda.Open(0)
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			alloc := d.Alloc
			if r == 1 {
				alloc = d.AllocLegacy
			}
			a, err := alloc(flatPage)
			if err != nil {
				return err
			}
			_, err = Exchange(t.Context(), b, d, a.Ptr(), 4096, Flat(flatUnit))
			return err
		}) {
			if !errors.Is(err, device.ErrUnsupported) || fault.PeerOf(err) != 1 ||
				!strings.Contains(err.Error(), "ncclMemAlloc") {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

func flatChild(text string) error {
	r, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	b, err := bootstrap.JoinAddress(ctx, os.Getenv("GOCCL_SHARE_ADDRESS"), r, flatRanks)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	open := openHost
	if os.Getenv("GOCCL_SHARE_DEVICE") == "cuda" {
		open = openCUDA
	}
	if os.Getenv("GOCCL_SHARE_TEST") == "TestBuffersProcesses" {
		return buffersRank(ctx, b, open)
	}
	return flatRank(ctx, b, open, int64(r+1)*flatPage, 64, func(d device.Device, p device.Ptr) (*Parts, error) {
		return Exchange(ctx, b, d, p, 4096, Flat(flatUnit))
	})
}

// The same with a process for each rank.
func TestFlatProcesses(t *testing.T) { processes(t) }

// processes runs flatChild in a process for each rank.
func processes(t *testing.T) {
	onDevices(t, func(t *testing.T, _ opener) {
		test, kind, _ := strings.Cut(t.Name(), "/")
		address := fmt.Sprintf("127.0.0.1:%d", testutil.Port(t))
		var ranks []*exec.Cmd
		for r := range flatRanks {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), "GOCCL_SHARE_RANK="+strconv.Itoa(r), "GOCCL_SHARE_ADDRESS="+address,
				"GOCCL_SHARE_DEVICE="+kind, "GOCCL_SHARE_TEST="+test, "GOCCL_SECRET=test", "GORACE=atexit_sleep_ms=0")
			c.Stderr = os.Stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			ranks = append(ranks, c)
		}
		for r, c := range ranks {
			if err := c.Wait(); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}
