package doctor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/watch/observe/records"
)

// CheckProcess examines a running process below root ("/"): the libraries that it has really loaded, its limits and its
// environment. It looks from outside, so the process may hang.
func CheckProcess(ctx context.Context, root string, pid int) []Finding {
	proc := filepath.Join(root, "proc", strconv.Itoa(pid))
	r := &report{area: "process"}
	comm, err := os.ReadFile(filepath.Join(proc, "comm"))
	if err != nil {
		r.fail(strconv.Itoa(pid), "give the number of a process that runs: ps, nvidia-smi", "%v", err)
		return r.findings
	}
	r.ok(strconv.Itoa(pid), "%s", strings.TrimSpace(string(comm)))
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil {
		r.fail("libraries", "run goccl doctor --pid as the process's user or as root", "%v", err)
		return r.findings
	}
	libraries(r, root, proc, loaded(string(maps)))
	unknown, keep := func(string) bool { return false }, func(*records.File) bool { return true }
	files, _ := records.Find(filepath.Join(root, "proc"), records.Recorder, []int{pid}, unknown, keep)
	plugin, _ := records.Find(filepath.Join(root, "proc"), records.Profiler, []int{pid}, unknown, keep)
	switch {
	case len(files) > 0 || len(plugin) > 0:
		r.ok("records", "goccl watch --pid %d sees its collectives", pid)
	default:
		r.warn("records", "NCCL_PROFILER_PLUGIN=libgoccl-profiler.so for jobs on NCCL",
			"goccl watch cannot see its collectives: it has no communicator of goccl, and no profiler plugin")
	}
	for _, f := range append(files, plugin...) {
		_ = f.Close()
	}
	all := r.findings
	env, err := os.ReadFile(filepath.Join(proc, "environ"))
	s := Source{Limit: func(name string) (uint64, error) { return processLimit(proc, name) }}
	if err == nil {
		s.Environment = func() []string { return strings.Split(strings.TrimRight(string(env), "\x00"), "\x00") }
	}
	return append(all, s.Check(ctx)...)
}

// interesting are the libraries whose place and version matter.
var interesting = regexp.MustCompile(`^lib(nccl|cuda|cudart|nvidia-ml|nvrtc|goccl|mscclpp|ibverbs|mlx5|` +
	`efa|fabric|ucp|mpi|torch_cuda|nvshmem_host|rccl)[-.\w]*\.so`)

// loaded returns the paths of interesting libraries in a process's map of memory.
func loaded(maps string) (paths []string) {
	for line := range strings.Lines(maps) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 6)
		if len(f) < 6 {
			continue
		}
		path := strings.TrimSpace(f[5])
		if interesting.MatchString(filepath.Base(path)) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// libraries reports each library with its version, two of a kind, deleted ones, and a driver library that is not the
// kernel module's.
func libraries(r *report, root, proc string, paths []string) {
	kinds := map[string][]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(path, " (deleted)") {
			r.warn(name, "start the process again", "%s: the file was replaced or removed while the process runs", path)
		}
		kind := kindOf(name)
		kinds[kind] = append(kinds[kind], path)
		text := path
		if v := versionOf(filepath.Join(proc, "root", path)); v != "" {
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
	module, _ := os.ReadFile(filepath.Join(root, "sys/module/nvidia/version"))
	for _, path := range kinds["libcuda"] {
		have := driverVersion.FindString(filepath.Base(path))
		if want := strings.TrimSpace(string(module)); have != "" && want != "" && have != want {
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

// processLimit reads a soft limit of a process.
func processLimit(proc, name string) (uint64, error) {
	title := map[string]string{"nofile": "Max open files", "memlock": "Max locked memory"}[name]
	b, err := os.ReadFile(filepath.Join(proc, "limits"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, title); ok {
			f := strings.Fields(rest)
			if len(f) > 0 && f[0] == "unlimited" {
				return math.MaxUint64, nil
			}
			if len(f) > 0 {
				return strconv.ParseUint(f[0], 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("no limit %q in %s/limits", title, proc)
}
