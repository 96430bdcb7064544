package wait_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/wait"
)

// mesh is n×n cells: cell (to, from) counts the signals of rank from to rank to.
type mesh struct {
	n     int
	cells []wait.Cell
}

func newMesh(mem []byte, n int) *mesh {
	return &mesh{n: n, cells: unsafe.Slice((*wait.Cell)(unsafe.Pointer(&mem[0])), n*n+1)}
}

func meshBytes(n int) int { return (n*n + 1) * wait.CellSize }

// exchange runs one round of rank r: signal all others, wait for all others.
func (m *mesh) exchange(r int, round uint64, l wait.Limit, p *wait.Policy) error {
	for i := 1; i < m.n; i++ {
		to := (r + i) % m.n
		m.cells[to*m.n+r].Add(1)
	}
	for i := 1; i < m.n; i++ {
		from := (r + i) % m.n
		if err := m.cells[r*m.n+from].WaitAtLeast(round, l, p); err != nil {
			return fmt.Errorf("rank %d, round %d, from %d: %w", r, round, from, err)
		}
	}
	return nil
}

func sharedMemory(tb testing.TB, size int) (*os.File, []byte) {
	tb.Helper()
	fd, err := unix.MemfdCreate("wait-test", unix.MFD_CLOEXEC)
	if err != nil {
		tb.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "wait-test")
	if err := f.Truncate(int64(size)); err != nil {
		tb.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = unix.Munmap(mem)
		_ = f.Close()
	})
	return f, mem
}

// batch is the number of rounds that are timed together. The best batch shows the time of a round on an otherwise idle
// machine.
const batch = 200

func goroutineExchange(tb testing.TB, n, rounds int, p *wait.Policy) (best time.Duration) {
	_, mem := sharedMemory(tb, meshBytes(n))
	m := newMesh(mem, n)
	errs := make(chan error, n)
	best = time.Hour
	for r := range n {
		go func() {
			l := wait.Limit{Deadline: wait.After(60 * time.Second)}
			start := time.Now()
			for i := 1; i <= rounds; i++ {
				if r == 0 && i%batch == 0 {
					now := time.Now()
					best, start = min(best, now.Sub(start)/batch), now
				}
				if err := m.exchange(r, uint64(i), l, p); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			tb.Fatal(err)
		}
	}
	return best
}

// The child's side of processExchange: the environment holds rank, ranks and rounds; fd 3 is the mesh.
func TestMain(m *testing.M) {
	if s := os.Getenv("WAIT_TEST_RANK"); s != "" {
		if err := childExchange(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func childExchange(rank string) error {
	r, _ := strconv.Atoi(rank)
	n, _ := strconv.Atoi(os.Getenv("WAIT_TEST_RANKS"))
	rounds, _ := strconv.Atoi(os.Getenv("WAIT_TEST_ROUNDS"))
	mem, err := unix.Mmap(3, 0, meshBytes(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m := newMesh(mem, n)
	p := wait.For(1, n)
	l := wait.Limit{Deadline: wait.After(60 * time.Second)}
	start, best := time.Now(), time.Hour
	for i := 1; i <= rounds; i++ {
		if i%batch == 0 {
			now := time.Now()
			best, start = min(best, now.Sub(start)/batch), now
		}
		if err := m.exchange(r, uint64(i), l, p); err != nil {
			return err
		}
	}
	if r == 0 {
		m.cells[n*n].Store(uint64(best))
	}
	return nil
}

func processExchange(tb testing.TB, n, rounds int) time.Duration {
	f, mem := sharedMemory(tb, meshBytes(n))
	m := newMesh(mem, n)
	children := make([]*exec.Cmd, n)
	for r := range n {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "WAIT_TEST_RANK="+strconv.Itoa(r), "WAIT_TEST_RANKS="+strconv.Itoa(n),
			"WAIT_TEST_ROUNDS="+strconv.Itoa(rounds))
		c.ExtraFiles = []*os.File{f}
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			tb.Fatal(err)
		}
		children[r] = c
	}
	for r, c := range children {
		if err := c.Wait(); err != nil {
			tb.Errorf("rank %d: %v", r, err)
		}
	}
	return time.Duration(m.cells[n*n].Load())
}

func TestExchangeBetweenGoroutines(t *testing.T) {
	for _, p := range []*wait.Policy{nil, wait.For(8, 8), sleepy} {
		goroutineExchange(t, 8, 1000, p)
	}
}

func TestExchangeBetweenProcesses(t *testing.T) { processExchange(t, 8, 500) }

// The two benchmarks give a lower bound for an 8-byte all-reduce.
func BenchmarkExchangeGoroutines(b *testing.B) {
	for _, n := range []int{2, 8} {
		for name, p := range map[string]*wait.Policy{"configured": wait.For(n, n), "default": nil} {
			b.Run(strconv.Itoa(n)+"/"+name, func(b *testing.B) {
				b.ReportMetric(float64(goroutineExchange(b, n, b.N, p).Nanoseconds())/1e3, "µs/best")
			})
		}
	}
}

func BenchmarkExchangeProcesses(b *testing.B) {
	for _, n := range []int{2, 8} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportMetric(float64(processExchange(b, n, b.N).Nanoseconds())/1e3, "µs/best")
		})
	}
}
