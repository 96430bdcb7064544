//go:build cgo && linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

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

// The libraries export only goccl's and NCCL's names, and all of them.
func TestExportedSymbols(t *testing.T) {
	dir := libraries(t)
	golden(t, "libnccl.golden", strings.Join(symbols(t, filepath.Join(dir, "libnccl.so.2")), "\n")+"\n")
	header, err := os.ReadFile("nccl/api.h")
	if err != nil {
		t.Fatal(err)
	}
	nccl := symbols(t, filepath.Join(dir, "libnccl.so.2"))
	listed := regexp.MustCompile(`(?m)^NCCL_(?:API|LACKS)\(\w+[^,]*, (\w+)`).FindAllSubmatch(header, -1)
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
	declaration := regexp.MustCompile(`(?m)^(?:goccl_result|const char \*|uint32_t|void) ?(goccl_\w+)\(`)
	headers, _ := filepath.Glob("*.h")
	for _, h := range headers {
		text, err := os.ReadFile(h)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			if !strings.HasPrefix(string(m[1]), "goccl_door_") {
				declared = append(declared, string(m[1]))
			}
		}
	}
	for _, s := range symbols(t, filepath.Join(dir, "libgoccl.so")) {
		exported = append(exported, strings.TrimPrefix(s, "T "))
	}
	sort.Strings(declared)
	if d := slices.DeleteFunc(slices.Clone(declared),
		func(s string) bool { return slices.Contains(exported, s) }); len(d) > 0 {
		t.Errorf("declared in a header and not exported by libgoccl.so: %v", d)
	}
	if d := slices.DeleteFunc(slices.Clone(exported),
		func(s string) bool { return slices.Contains(declared, s) }); len(d) > 0 {
		t.Errorf("exported by libgoccl.so and declared nowhere: %v", d)
	}
}

// Every function that NVIDIA's library exports, under both of its names, and the all-to-all-v of VCCL and RCCL: a
// missing function would be resolved in another NCCL in the process. The lists come from NVIDIA's library:
// testdata/nvidia.sh makes them.
func TestNCCLSymbols(t *testing.T) {
	have := symbols(t, filepath.Join(libraries(t), "libnccl.so.2"))
	wanted := strings.Fields("ncclAlltoAllv ncclAllToAllv ncclAllToAll pncclAlltoAllv pncclAllToAllv pncclAllToAll")
	for _, v := range []string{"2.28.9", "2.30.7", "2.32.3"} {
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

// The symbols that PyTorch 2.11 to 2.15 link against.
func TestPyTorchSymbols(t *testing.T) {
	have := symbols(t, filepath.Join(libraries(t), "libnccl.so.2"))
	for _, name := range strings.Fields(`
		GetVersion GetUniqueId GetErrorString GetLastError CommInitRank CommInitAll CommInitRankConfig
		CommInitRankScalable CommSplit CommShrink CommFinalize CommDestroy CommAbort CommGetAsyncError
		CommCount CommUserRank CommRegister CommDeregister CommWindowRegister CommWindowDeregister MemAlloc
		MemFree GroupStart GroupEnd GroupSimulateEnd RedOpCreatePreMulSum RedOpDestroy Bcast Broadcast
		Reduce AllReduce ReduceScatter AllGather AlltoAll Send Recv DevCommCreate DevCommDestroy
		GetPeerDevicePointer GetLsaMultimemDevicePointer PutSignal Signal WaitSignal CommSuspend CommResume
		CommMemStats CommGetUniqueId CommGrow CommRevoke Gather WinGetUserPtr`) {
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
