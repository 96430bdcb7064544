package doctor

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/goccl/goccl/internal/sysfile"
	"github.com/goccl/goccl/watch/observe/records"
)

// CheckProcess examines a running process below root ("/"): the libraries that it has really loaded, its limits and its
// environment. It looks from outside, so the process may hang.
func CheckProcess(ctx context.Context, root string, pid int) []Finding {
	r := &report{area: "process"}
	fs, err := procfs.NewFS(filepath.Join(root, "proc"))
	var p procfs.Proc
	if err == nil {
		p, err = fs.Proc(pid)
	}
	var comm string
	if err == nil {
		comm, err = p.Comm()
	}
	if err != nil {
		r.fail(strconv.Itoa(pid), "give the number of a process that runs: ps, nvidia-smi", "%v", err)
		return r.findings
	}
	r.ok(strconv.Itoa(pid), "%s", comm)
	maps, err := p.ProcMaps()
	if err != nil {
		r.fail("libraries", "run goccl doctor --pid as the process's user or as root", "%v", err)
		return r.findings
	}
	libraries(r, root, pid, loaded(maps))
	unknown, keep := func(string) bool { return false }, func(*records.File) bool { return true }
	files, _ := records.Find(filepath.Join(root, "proc"), records.Recorder, []int{pid}, unknown, keep)
	plugin, _ := records.Find(filepath.Join(root, "proc"), records.Profiler, []int{pid}, unknown, keep)
	if len(files) > 0 || len(plugin) > 0 {
		r.ok("records", "goccl watch --pid %d sees its collectives", pid)
	} else {
		r.warn("records", "NCCL_PROFILER_PLUGIN=libgoccl-profiler.so for jobs on NCCL",
			"goccl watch cannot see its collectives: it has no communicator of goccl, and no profiler plugin")
	}
	for _, f := range append(files, plugin...) {
		_ = f.Close()
	}
	all := r.findings
	s := Source{Limit: func(name string) (uint64, error) {
		l, err := p.Limits()
		return map[string]uint64{"nofile": l.OpenFiles, "memlock": l.LockedMemory}[name], err
	}}
	if env, err := p.Environ(); err == nil {
		s.Environment = func() []string { return env }
	}
	return append(all, s.Check(ctx)...)
}

// interesting are the libraries whose place and version matter.
var interesting = regexp.MustCompile(`^lib(nccl|cuda|cudart|nvidia-ml|nvrtc|goccl|mscclpp|ibverbs|mlx5|` +
	`efa|fabric|ucp|mpi|torch_cuda|nvshmem_host|rccl)[-.\w]*\.so`)

// loaded returns the paths of interesting libraries in a process's map of memory.
func loaded(maps []*procfs.ProcMap) (paths []string) {
	for _, m := range maps {
		if interesting.MatchString(filepath.Base(m.Pathname)) && !slices.Contains(paths, m.Pathname) {
			paths = append(paths, m.Pathname)
		}
	}
	return paths
}

// libraries reports each library with its version, two of a kind, deleted ones, and a driver library that is not the
// kernel module's.
func libraries(r *report, root string, pid int, paths []string) {
	kinds := map[string][]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(path, " (deleted)") {
			r.warn(name, "start the process again", "%s: the file was replaced or removed while the process runs", path)
		}
		kind := kindOf(name)
		kinds[kind] = append(kinds[kind], path)
		text := path
		if v := versionOf(filepath.Join(root, "proc", strconv.Itoa(pid), "root", path)); v != "" {
			text += ", " + v
		}
		r.ok(name, "%s", text)
	}
	for _, kind := range []string{"libnccl", "libcuda", "libcudart", "libgoccl", "libnvidia-ml"} {
		if found := kinds[kind]; len(found) > 1 {
			r.fail(kind, "see LD_LIBRARY_PATH, LD_PRELOAD and the packages of Python: one of them brings its own", "%d are "+
				"loaded: %s: which one a call reaches depends on the order", len(found), strings.Join(found, ", "))
		}
	}
	if len(kinds["libnccl"]) == 0 && len(kinds["libgoccl"]) == 0 {
		r.warn("libnccl", "nothing, if it does not communicate yet; a statically linked NCCL cannot be seen",
			"no libnccl and no libgoccl is loaded")
	}
	for _, path := range kinds["libcuda"] {
		have := driverVersion.FindString(filepath.Base(path))
		if want := sysfile.Root(root).Read("sys/module/nvidia/version"); have != "" && want != "" && have != want {
			r.fail("libcuda", "use the driver library of the kernel module: restart the container, or reboot after the "+
				"update", "%s is of driver %s, the kernel module of %s", path, have, want)
		}
	}
}

var driverVersion = regexp.MustCompile(`\d{3,}\.\d+(\.\d+)?$`)

// kindOf is the name up to the first dot or digit: libcudart of libcudart-abc.so.12.
func kindOf(name string) string {
	base, _, _ := strings.Cut(name, ".so")
	if strings.HasPrefix(base, "libnccl-") || strings.HasPrefix(base, "libgoccl-") { // plugins
		return base
	}
	base, _, _ = strings.Cut(base, "-")
	if strings.HasPrefix(name, "libnvidia-ml") {
		return "libnvidia-ml"
	}
	return base
}

// Versions stand in the libraries as text.
var versionTexts = regexp.MustCompile(`NCCL version \d+\.\d+\.\d+[\w.+-]*|` +
	`NCCL version %d\.%d\.%d by goccl`)

// largestLibrary bounds how much of a library is looked through.
const largestLibrary = 512 << 20

// versionOf looks for a version in a library.
func versionOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || st.Mode()&fs.ModeType != 0 || !strings.Contains(filepath.Base(path), "nccl") {
		return ""
	}
	in := bufio.NewReaderSize(io.LimitReader(f, largestLibrary), 1<<20)
	var last []byte
	for {
		b := make([]byte, 1<<20)
		n, err := io.ReadFull(in, b)
		window := append(last, b[:n]...)
		if m := versionTexts.Find(window); m != nil {
			if bytes.Contains(m, []byte("%d")) {
				return "goccl's"
			}
			return string(m)
		}
		if err != nil {
			return ""
		}
		last = slices.Clone(window[max(0, len(window)-64):])
	}
}
