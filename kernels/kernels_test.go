package kernels_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccl/goccl/kernels"
	"github.com/goccl/goccl/tools/kernels/cubin"
)

func TestImage(t *testing.T) {
	for _, group := range kernels.Groups() {
		for _, cc := range [][2]int{{8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {10, 3}, {12, 0}} {
			image, err := kernels.Image(group, cc[0], cc[1])
			if err != nil {
				t.Fatal(err)
			}
			if cc[0] > 10 {
				if !bytes.Contains(image, []byte(".visible .entry "+kernels.Names(group)[0])) {
					t.Errorf("%s for %v: want PTX with an entry", group, cc)
				}
				continue
			}
			list, err := cubin.Inspect(image)
			if err != nil {
				t.Fatalf("%s for %v: %v", group, cc, err)
			}
			var names []string
			for _, k := range list {
				names = append(names, k.Name)
				if k.Registers <= 0 || k.Registers > 255 || k.Code <= 0 {
					t.Errorf("%s for %v: %+v is not plausible", group, cc, k)
				}
			}
			if !slices.Equal(names, kernels.Names(group)) {
				t.Errorf("%s for %v has %v: want %v", group, cc, names, kernels.Names(group))
			}
		}
	}
}

func TestImageErrors(t *testing.T) {
	_, err := kernels.Image("no such group", 9, 0)
	if !errors.Is(err, kernels.ErrUnknownGroup) || !strings.Contains(err.Error(), "probe") {
		t.Errorf("unknown group: %v: want ErrUnknownGroup and the list of groups", err)
	}
	_, err = kernels.Image("probe", 7, 0)
	if !errors.Is(err, kernels.ErrNoImage) || !strings.Contains(err.Error(), "7.0") {
		t.Errorf("old device: %v: want ErrNoImage that names 7.0", err)
	}
}

func TestHeaders(t *testing.T) {
	h := kernels.Headers()
	for _, name := range []string{
		"goccl/handle.cuh", "goccl/sync.cuh", "mscclpp/packet_device.hpp", "mscclpp/proxy_channel_device.hpp", "cstdint",
	} {
		if h[name] == "" {
			t.Errorf("no header %s", name)
		}
	}
	delete(h, "goccl/sync.cuh")
	if kernels.Headers()["goccl/sync.cuh"] == "" {
		t.Error("a caller can change the headers of others")
	}
}

// TestLocalMemory refuses kernels that spill: testdata/local_memory.txt lists the ones that may, with their limit.
func TestLocalMemory(t *testing.T) {
	text, err := os.ReadFile("testdata/local_memory.txt")
	if err != nil {
		t.Fatal(err)
	}
	type rule struct {
		group, pattern string
		bytes          int
	}
	var rules []rule
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		n, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatalf("local_memory.txt: %q: %v", line, err)
		}
		rules = append(rules, rule{f[0], f[1], n})
	}
	for _, group := range kernels.Groups() {
		for _, major := range []int{8, 9, 10} {
			image, err := kernels.Image(group, major, 0)
			if err != nil {
				t.Fatal(err)
			}
			list, err := cubin.Inspect(image)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range list {
				allowed := 0
				for _, r := range rules {
					if ok, _ := filepath.Match(r.pattern, strings.TrimPrefix(k.Name, kernels.Entry(""))); ok && r.group == group {
						allowed = r.bytes
					}
				}
				if k.Local > allowed {
					t.Errorf("%s on sm_%d0 uses %d bytes of local memory a thread, %d are allowed: "+
						"keep fewer values live, or use __launch_bounds__(threads, 1)", k.Name, major, k.Local, allowed)
				}
			}
		}
	}
}

var (
	reComment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	reString  = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)
)

// forbidden lists what device code must not contain, and the exceptions.
var forbidden = []struct {
	pattern *regexp.Regexp
	except  []string
	why     string
}{
	{regexp.MustCompile(`\b__threadfence(_system|_block)?\b`), nil, "use the releases and acquires of sync.cuh"},
	{regexp.MustCompile(`\batomic(Add|Sub|Exch|CAS|Min|Max|Or|And|Inc|Dec)(_system|_block)?\b`), nil,
		"legacy atomics have no order: use sync.cuh"},
	{regexp.MustCompile(`\basm\b`),
		[]string{"goccl/sync.cuh", "goccl/bulk.cuh", "mscclpp/bulk_device.hpp", "goccl/types.cuh", "collective/ticket.cuh",
			"onesided/cluster.cuh"},
		"inline PTX lives in sync.cuh, bulk.cuh and types.cuh, and PTX about launches in ticket.cuh and cluster.cuh"},
	{regexp.MustCompile(`\bvolatile\b`), []string{"goccl/sync.cuh", "goccl/bulk.cuh", "mscclpp/bulk_device.hpp",
		"collective/ticket.cuh", "onesided/cluster.cuh"},
		"volatile orders nothing: use the loads and stores of sync.cuh"},
	{regexp.MustCompile(`\b__restrict(__)?\b`), nil,
		"it turns loads into ld.global.nc, which is wrong for memory that a peer writes"},
	{regexp.MustCompile(`\b(__ldg|__ldcg|__ldcs|__ldcv)\b`), nil, "cached loads are wrong for memory that a peer writes"},
	{regexp.MustCompile(`\b(__trap|assert|__assert_fail|__brkpt)\b`),
		[]string{"assert.h", "cassert", "assert_device.hpp"}, // users' kernels may use assert
		"a trap destroys the CUDA context: return a status"},
	{regexp.MustCompile(`\bprintf\b`), nil, "printf needs a buffer and a heap on the device"},
	{regexp.MustCompile(`(?i)multimem|cuMulticast`), nil, "multicast is off"},
	{regexp.MustCompile(`\bstatic\s+__device__\b|\bmalloc\b|\bnew\b`), nil,
		"no allocation and no hidden state on the device"},
}

// TestLint reads every device source. Comments are exempt; strings, which hold PTX, must not name multicast or
// non-coherent loads.
func TestLint(t *testing.T) {
	var files []string
	for _, pattern := range []string{"include/*/*", "*/*.cu", "*/*.cuh"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files found", len(files))
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, ".txt") {
			continue
		}
		code := reComment.ReplaceAll(text, nil)
		if m := regexp.MustCompile(`(?i)multimem|ld\.global\.nc|\.volatile`).Find(code); m != nil {
			t.Errorf("%s: PTX %q is not allowed", path, m)
		}
		code = reString.ReplaceAll(code, []byte(`""`))
		for _, f := range forbidden {
			m := f.pattern.Find(code)
			excepted := func(e string) bool { return strings.HasSuffix(filepath.ToSlash(path), e) }
			if m == nil || slices.ContainsFunc(f.except, excepted) {
				continue
			}
			t.Errorf("%s: %q: %s", path, m, f.why)
		}
	}
}
