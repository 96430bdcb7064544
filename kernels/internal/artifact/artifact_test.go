package artifact

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

func TestSelect(t *testing.T) {
	g := Group{Images: []Image{
		{Major: 8, Minor: 0, Data: []byte("c80")}, {Major: 8, Minor: 6, Data: []byte("c86")},
		{Major: 9, Minor: 0, Data: []byte("c90")}, {Major: 10, Minor: 0, Data: []byte("c100")},
		{Major: 8, Minor: 0, PTX: true, Data: []byte("p80")}, {Major: 9, Minor: 0, PTX: true, Data: []byte("p90")},
	}}
	for _, c := range []struct {
		major, minor int
		want         string
	}{
		{7, 5, ""}, {8, 0, "c80"}, {8, 5, "c80"}, {8, 6, "c86"}, {8, 9, "c86"}, {9, 0, "c90"},
		{10, 0, "c100"}, {10, 3, "c100"}, {12, 0, "p90"}, {11, 0, "p90"},
	} {
		got := ""
		if i := g.Select(c.major, c.minor); i != nil {
			got = string(i.Data)
		}
		if got != c.want {
			t.Errorf("Select(%d, %d) = %q: want %q", c.major, c.minor, got, c.want)
		}
	}
}

func TestSelectDoesNotDependOnOrder(t *testing.T) {
	g := Group{Images: []Image{
		{Major: 9, PTX: true, Data: []byte("p90")}, {Major: 8, PTX: true, Data: []byte("p80")},
		{Major: 8, Minor: 6, Data: []byte("c86")}, {Major: 8, Data: []byte("c80")},
	}}
	for cc, want := range map[int]string{80: "c80", 89: "c86", 90: "p90", 120: "p90"} {
		if got := string(g.Select(cc/10, cc%10).Data); got != want {
			t.Errorf("Select(%d) = %q: want %q", cc, got, want)
		}
	}
}

// packed compresses an image as tools/kernels/pack does.
func packed(tb testing.TB, image []byte) []byte {
	tb.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		tb.Fatal(err)
	}
	return w.EncodeAll(image, nil)
}

// Open returns images as they are, unpacks packed ones, and refuses a packed one that is cut short.
func TestOpen(t *testing.T) {
	image := bytes.Repeat([]byte("a cubin "), 1000)
	data := packed(t, image)
	for _, stored := range [][]byte{image, data} {
		if got, err := (&Image{Data: stored}).Open(); err != nil || !bytes.Equal(got, image) {
			t.Errorf("%d bytes: %d of %d, %v", len(stored), len(got), len(image), err)
		}
	}
	if _, err := (&Image{Data: data[:len(data)-9]}).Open(); err == nil {
		t.Error("an image that is cut short opens")
	}
}

// BenchmarkOpen is the CPU time that a process on sm_90 pays for unpacking every group that a communicator loads.
func BenchmarkOpen(b *testing.B) {
	paths, err := filepath.Glob("../../*/*_sm90.cubin")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range paths {
		image, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		data := packed(b, image)
		b.Run(filepath.Base(path), func(b *testing.B) {
			start := cpu(b)
			for b.Loop() {
				if _, err := (&Image{Data: data}).Open(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpu(b)-start).Seconds()*1e3/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpu is the CPU time of this process so far: other processes do not disturb it.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
