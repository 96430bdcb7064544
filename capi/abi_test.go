//go:build cgo && linux

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/driver/mockcuda"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// The libraries are built once for all tests, as `make libnccl` builds them.
var built struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// libraries returns the directory with libgoccl.so and libnccl.so.2.
func libraries(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"gcc", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "goccl-capi"); built.err != nil {
			return
		}
		here, err := os.Getwd()
		if err != nil {
			built.err = err
			return
		}
		sources, _ := filepath.Glob("nccl/*.c")
		for _, argv := range [][]string{
			{"go", "build", "-buildmode=c-shared", "-trimpath", "-o", filepath.Join(built.dir, "libgoccl.so"),
				"-ldflags", "-s -w -extldflags '-Wl,--version-script=" + here + "/libgoccl.map -Wl,-soname,libgoccl.so'", "."},
			append([]string{"gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,-soname,libnccl.so.2",
				"-Wl,--version-script=nccl/libnccl.map", "-Wl,-z,nodelete", "-Wl,-z,defs", "-o", filepath.Join(built.dir, "libnccl.so.2"), "-ldl", "-lpthread"}, sources...),
		} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				built.err = fmt.Errorf("%s: %w\n%s", argv, err, out)
				return
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// program compiles testdata/name.c against libnccl.so.2.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := libraries(t)
	exe := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-Wno-enum-conversion", "-o", exe,
		filepath.Join("testdata", name+".c"), filepath.Join(dir, "libnccl.so.2"), "-lpthread", "-lm", "-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("%s.c: %v\n%s", name, err, out)
	}
	return exe
}

// environment is the test's own environment, with the host device and the libraries under test.
func environment(t *testing.T, more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "NCCL_") || strings.HasPrefix(s, "GOCCL_") || strings.HasPrefix(s, "LD_")
	})
	return append(append(env, "GOCCL_DEVICE=host", "LD_LIBRARY_PATH="+libraries(t)), more...)
}

func command(t *testing.T, env []string, argv ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = env
	return c
}

func run(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	out, err := command(t, env, argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

func symbols(t *testing.T, library string) []string {
	t.Helper()
	if _, err := exec.LookPath("nm"); err != nil {
		t.Skip("needs nm: ", err)
	}
	var names []string
	for line := range strings.Lines(run(t, os.Environ(), "nm", "-D", "--defined-only", library)) {
		if f := strings.Fields(line); len(f) == 3 {
			names = append(names, f[1]+" "+f[2])
		}
	}
	sort.Strings(names)
	return names
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; it is now\n%s", name, got)
	}
}

// The libraries export only goccl's and NCCL's names, and all of them.
func TestExportedSymbols(t *testing.T) {
	dir := libraries(t)
	golden(t, "libnccl.golden", strings.Join(symbols(t, filepath.Join(dir, "libnccl.so.2")), "\n")+"\n")
	header, err := os.ReadFile("nccl/api.h")
	if err != nil {
		t.Fatal(err)
	}
	nccl := symbols(t, filepath.Join(dir, "libnccl.so.2"))
	listed := regexp.MustCompile(`(?m)^NCCL_API\([^,]+, (\w+)`).FindAllSubmatch(header, -1)
	for _, m := range listed {
		for _, s := range []string{"W " + string(m[1]), "T p" + string(m[1])} {
			if !slices.Contains(nccl, s) {
				t.Errorf("libnccl.so.2 lacks %s", s)
			}
		}
	}
	if len(nccl) != 2*len(listed) {
		t.Errorf("libnccl.so.2 has %d symbols, api.h lists %d", len(nccl), 2*len(listed))
	}
	var declared, exported []string
	headers, _ := filepath.Glob("*.h")
	for _, h := range headers {
		text, err := os.ReadFile(h)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:goccl_result|const char \*|uint32_t|void) ?(goccl_\w+)\(`).FindAllSubmatch(text, -1) {
			if !strings.HasPrefix(string(m[1]), "goccl_door_") {
				declared = append(declared, string(m[1]))
			}
		}
	}
	for _, s := range symbols(t, filepath.Join(dir, "libgoccl.so")) {
		exported = append(exported, strings.TrimPrefix(s, "T "))
	}
	sort.Strings(declared)
	if d := slices.DeleteFunc(slices.Clone(declared), func(s string) bool { return slices.Contains(exported, s) }); len(d) > 0 {
		t.Errorf("declared in a header and not exported by libgoccl.so: %v", d)
	}
	if d := slices.DeleteFunc(slices.Clone(exported), func(s string) bool { return slices.Contains(declared, s) }); len(d) > 0 {
		t.Errorf("exported by libgoccl.so and declared nowhere: %v", d)
	}
}

// Every function that NVIDIA's library exports, under both of its names, and the all-to-all-v of VCCL and RCCL: a
// missing function would be resolved in another NCCL in the process. The lists come from NVIDIA's library:
// testdata/nvidia.sh makes them.
func TestNCCLSymbols(t *testing.T) {
	have := symbols(t, filepath.Join(libraries(t), "libnccl.so.2"))
	wanted := strings.Fields("ncclAlltoAllv ncclAllToAllv ncclAllToAll pncclAlltoAllv pncclAllToAllv pncclAllToAll")
	for _, v := range []string{"2.28.9", "2.30.7"} {
		list, err := os.ReadFile(filepath.Join("testdata", "nvidia-nccl-"+v+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if names := strings.Fields(string(list)); len(names) > 100 && slices.Contains(names, "ncclAllReduce") {
			wanted = append(wanted, names...)
		} else {
			t.Errorf("the list of NCCL %s has %d names", v, len(names))
		}
	}
	for _, name := range wanted {
		symbol := "W " + name
		if strings.HasPrefix(name, "pnccl") {
			symbol = "T " + name
		}
		// No header declares ncclResetDebugInitInternal: it is for NVIDIA's own tests.
		if name != "ncclResetDebugInitInternal" && !slices.Contains(have, symbol) {
			t.Errorf("%s is missing", symbol)
		}
	}
}

// The symbols that PyTorch 2.11 links against.
func TestPyTorchSymbols(t *testing.T) {
	have := symbols(t, filepath.Join(libraries(t), "libnccl.so.2"))
	for _, name := range strings.Fields(`GetVersion GetUniqueId GetErrorString GetLastError CommInitRank CommInitAll CommInitRankConfig CommInitRankScalable
		CommSplit CommShrink CommFinalize CommDestroy CommAbort CommGetAsyncError CommCount CommUserRank CommRegister CommDeregister CommWindowRegister
		CommWindowDeregister MemAlloc MemFree GroupStart GroupEnd GroupSimulateEnd RedOpCreatePreMulSum RedOpDestroy Bcast Broadcast Reduce AllReduce
		ReduceScatter AllGather AlltoAll Send Recv DevCommCreate DevCommDestroy GetPeerDevicePointer GetLsaMultimemDevicePointer PutSignal Signal WaitSignal
		CommSuspend CommResume CommMemStats`) {
		if !slices.Contains(have, "W nccl"+name) {
			t.Errorf("nccl%s is missing", name)
		}
	}
}

func TestDynamicSection(t *testing.T) {
	if _, err := exec.LookPath("readelf"); err != nil {
		t.Skip("needs readelf: ", err)
	}
	for _, c := range []struct {
		file, soname string
		never        []string
	}{
		{"libnccl.so.2", "libnccl.so.2", []string{"libgoccl", "libcuda", "libcudart"}},
		{"libgoccl.so", "libgoccl.so", []string{"libcuda", "libcudart", "libibverbs", "libnccl"}},
	} {
		out := run(t, os.Environ(), "readelf", "-dW", filepath.Join(libraries(t), c.file))
		if !strings.Contains(out, "Library soname: ["+c.soname+"]") || !strings.Contains(out, "NODELETE") {
			t.Errorf("%s: soname or NODELETE is missing:\n%s", c.file, out)
		}
		for _, n := range c.never {
			if regexp.MustCompile(`NEEDED.*` + n).MatchString(out) {
				t.Errorf("%s needs %s", c.file, n)
			}
		}
	}
}

func TestLayouts(t *testing.T) {
	golden(t, "layout.golden", run(t, environment(t), program(t, "layout")))
}

func TestSuite(t *testing.T) {
	exe := program(t, "suite")
	for _, mode := range [][]string{{"all", "1"}, {"all", "4"}, {"threads", "2"}, {"threads", "4"}, {"group", "3"}} {
		t.Run(strings.Join(mode, " "), func(t *testing.T) { run(t, environment(t), append([]string{exe}, mode...)...) })
	}
	t.Run("process 4", func(t *testing.T) { processes(t, exe, 4, -1, "process", "4") })
}

// processes runs n ranks of a program, whose arguments are args, the rank and a file; dies is the rank that is killed.
func processes(t *testing.T, exe string, n, dies int, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "id")
	var wg sync.WaitGroup
	for r := range n {
		c := command(t, environment(t), append(append([]string{exe}, args...), strconv.Itoa(r), file)...)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		wg.Go(func() {
			err := c.Run()
			var exit *exec.ExitError
			if r == dies && errors.As(err, &exit) && exit.ExitCode() == -1 {
				return
			}
			if err != nil {
				t.Errorf("rank %d: %v\n%s", r, err, out.String())
			}
		})
	}
	wg.Wait()
}

func TestUsage(t *testing.T)     { run(t, environment(t), program(t, "usage")) }
func TestLifecycle(t *testing.T) { run(t, environment(t), program(t, "lifecycle")) }
func TestInterpose(t *testing.T) { run(t, environment(t), program(t, "interpose")) }
func TestLeaks(t *testing.T)     { run(t, environment(t), program(t, "leak"), "100") }
func TestDeath(t *testing.T)     { processes(t, program(t, "death"), 4, 1, "4") }
func TestOrphan(t *testing.T)    { processes(t, program(t, "orphan"), 2, 1, "3") }

// A rank that dies in ncclCommSplit is named by every other.
func TestDeathInSplit(t *testing.T) {
	exe := program(t, "splitdeath")
	for range 20 {
		processes(t, exe, 4, 1)
	}
}

// Finalize, Destroy, Abort and Revoke from any thread, in groups, twice and after errors.
func TestRandomLifecycle(t *testing.T) {
	rounds := "40"
	if os.Getenv("GOCCL_FULL") != "" {
		rounds = "2000"
	}
	run(t, environment(t, "GOCCL_TIMEOUT=20s", "GOCCL_OP_TIMEOUT=2s"), program(t, "random"), strconv.FormatUint(uint64(rand.Uint32()), 10), rounds)
}

// A rank that leaves after its work is not reported as dead, and does not fail when peers leave after its work.
func TestGoodbye(t *testing.T) {
	exe := program(t, "goodbye")
	for _, how := range []string{"destroy", "exit", "nonblocking", "abort", "kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			processes(t, exe, 3, 0, how)
		})
	}
}

func TestProcess(t *testing.T) {
	exe := program(t, "process")
	t.Run("fork", func(t *testing.T) { run(t, environment(t), exe, "fork") })
	t.Run("exit", func(t *testing.T) {
		for range 10 {
			run(t, environment(t), exe, "exit")
		}
	})
	t.Run("late", func(t *testing.T) { run(t, environment(t), exe, "late") })
	t.Run("reload", func(t *testing.T) { run(t, environment(t), exe, "reload", filepath.Join(libraries(t), "libnccl.so.2")) })
}

// A shell and its children load the library and never use it.
func TestPreload(t *testing.T) {
	env := environment(t, "LD_PRELOAD="+filepath.Join(libraries(t), "libnccl.so.2"), "NCCL_DEBUG=INFO")
	for _, argv := range [][]string{{"/bin/true"}, {"/bin/sh", "-c", "for i in 1 2 3; do /bin/echo $i | /bin/cat; done | wc -l"}} {
		if _, err := os.Stat(argv[0]); err != nil {
			t.Skip(err)
		}
		if out := run(t, env, argv...); strings.TrimSpace(out) != map[string]string{"/bin/true": "", "/bin/sh": "3"}[argv[0]] {
			t.Errorf("%v printed %q", argv, out)
		}
	}
}

// The core is found in the directory of the library, also through a link; if it is not there, the error names it.
func TestFindingTheCore(t *testing.T) {
	exe, dir := program(t, "interpose"), libraries(t)
	away := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "libnccl.so.2"), filepath.Join(away, "libnccl.so.2")); err != nil {
		t.Fatal(err)
	}
	linked := environment(t, "LD_LIBRARY_PATH="+away)
	run(t, linked, exe)

	alone := t.TempDir()
	data, err := os.ReadFile(filepath.Join(dir, "libnccl.so.2"))
	if err == nil {
		err = os.WriteFile(filepath.Join(alone, "libnccl.so.2"), data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := command(t, environment(t, "LD_LIBRARY_PATH="+alone), exe).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "GOCCL_LIBRARY") {
		t.Errorf("without libgoccl.so: %v %s", err, out)
	}
	run(t, environment(t, "LD_LIBRARY_PATH="+alone, "GOCCL_LIBRARY="+filepath.Join(dir, "libgoccl.so")), exe)
	out, err = command(t, environment(t, "GOCCL_LIBRARY=libm.so.6"), exe).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another release") {
		t.Errorf("with a library that is not ours: %v %s", err, out)
	}
}

func TestDebugOutput(t *testing.T) {
	exe := program(t, "interpose")
	if out := run(t, environment(t, "NCCL_DEBUG=VERSION"), exe); !strings.Contains(out, "NCCL version 2.28.9 by goccl ") {
		t.Errorf("NCCL_DEBUG=VERSION printed %q", out)
	}
	if out := run(t, environment(t), exe); out != "" {
		t.Errorf("without NCCL_DEBUG it prints %q", out)
	}
	out, _ := command(t, environment(t, "NCCL_DEBUG=WARN", "GOCCL_DEVICE=toaster"), exe).CombinedOutput()
	if !strings.Contains(string(out), `NCCL WARN ncclCommInitAll: invalid argument: GOCCL_DEVICE="toaster"`) {
		t.Errorf("NCCL_DEBUG=WARN printed %q", out)
	}
	info := run(t, environment(t, "NCCL_DEBUG=INFO", "NCCL_ALGO=Ring", "NCCL_IB_HCA=mlx5_0", "NCCL_CHECK_POINTERS=1", "NCCL_P2P_LEVEL="), exe)
	if n := strings.Count(info, `variables="NCCL_ALGO NCCL_IB_HCA"`); n != 1 {
		t.Errorf("%d lines warn of the variables that are ignored:\n%s", n, info)
	}
	if !regexp.MustCompile(`msg="communicator is set up" pid=\d+ name="" rank=0 size=1 device=host:0 table=none took=[0-9.]+m?µ?s`).MatchString(info) {
		t.Errorf("NCCL_DEBUG=INFO says nothing of the communicator:\n%s", info)
	}
	if out := run(t, environment(t, "NCCL_ALGO=Ring"), exe); out != "" {
		t.Errorf("without NCCL_DEBUG it prints %q", out)
	}
	file := filepath.Join(t.TempDir(), "log.%p")
	run(t, environment(t, "NCCL_DEBUG=VERSION", "NCCL_DEBUG_FILE="+file), exe)
	if logs, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "log.[0-9]*")); len(logs) != 1 {
		t.Errorf("NCCL_DEBUG_FILE made %v", logs)
	}
}

func TestContexts(t *testing.T) { onMock(t, "context") }

func TestGraphUsageMode(t *testing.T) { onMock(t, "graphs") }

// onMock runs a program with the mock driver, which is its argument.
func onMock(t *testing.T, name string) {
	t.Helper()
	exe, lib := program(t, name), filepath.Join(t.TempDir(), "libmockcuda.so")
	if err := mockcuda.Build(lib); err != nil {
		t.Skip(err)
	}
	run(t, environment(t, "GOCCL_DEVICE=cuda", "MOCKCUDA_DEVICES=2", mockcuda.Env+"="+lib), exe, lib)
}
