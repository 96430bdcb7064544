package setting

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// from returns a source of values.
func from(values ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(values); i += 2 {
			if values[i] == name {
				return values[i+1]
			}
		}
		return ""
	}
}

func TestDurations(t *testing.T) {
	for s, want := range map[string]time.Duration{"5": 5 * time.Second, "0.5": 500 * time.Millisecond,
		"2m": 2 * time.Minute, "0": 0, "0s": 0} {
		c, err := Parse(from("GOCCL_SPIN_LIMIT", s))
		if err != nil || c.SpinLimit != want {
			t.Errorf("%q: %v, %v", s, c.SpinLimit, err)
		}
		if c, err = Parse(from("GOCCL_TIMEOUT", s)); (err == nil) != (want > 0) || c.TimeoutOr(time.Hour) != cmpOr(want,
			time.Hour) {
			t.Errorf("positive %q: %v, %v", s, c.Timeout, err)
		}
	}
	for _, s := range []string{"x", "-1", "-5s", "NaN", "1e99", "2000000h", "30 s"} {
		if c, err := Parse(from("GOCCL_SPIN_LIMIT", s)); err == nil || c.SpinLimit != 10*time.Minute {
			t.Errorf("%q: %v, %v", s, c.SpinLimit, err)
		}
	}
}

func cmpOr(a, b time.Duration) time.Duration {
	if a != 0 {
		return a
	}
	return b
}

// The error of a bad value names the variable, by the name that was set, the value and the allowed values. All bad
// values are in one error.
func TestBadValues(t *testing.T) {
	for _, v := range Variables() {
		if v.Want == "" {
			continue
		}
		for _, name := range []string{v.Name, v.Alias} {
			if name == "" {
				continue
			}
			_, err := Parse(from(name, "junk!"))
			if err == nil || err.Error() != name+`="junk!": want `+v.Want {
				t.Errorf("%s: %v", name, err)
			}
			if Wanted(name, "junk!") != v.Want || Wanted(name, "") != "" {
				t.Errorf("Wanted(%s)", name)
			}
		}
	}
	if _, err := Parse(from("GOCCL_CHECK", "perhaps", "GOCCL_TIMEOUT", "soon"), "GOCCL_TIMEOUT"); err == nil ||
		strings.Contains(err.Error(), "CHECK") {
		t.Errorf("%v", err)
	}
	_, err := Parse(from("GOCCL_CHECK", "perhaps", "GOCCL_MAX_CTAS", "0", "GOCCL_DEVICE", "toaster"))
	for _, want := range []string{`GOCCL_CHECK="perhaps"`, `GOCCL_MAX_CTAS="0"`, "from 1 to 65535", "cuda or host"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// goccl's own variable wins over NCCL's, which is then not even checked.
func TestAliases(t *testing.T) {
	c, err := Parse(from("GOCCL_SOCKET_FAMILY", "4", "NCCL_SOCKET_FAMILY", "junk", "NCCL_MAX_CTAS", "12", "NCCL_HOSTID",
		"me"))
	if err != nil || c.Family != 4 || c.MaxCTAs != 12 || c.HostID != "me" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, s := range []string{"ipv4", "AF_INET ", "inet6", "10"} {
		if _, err := Parse(from("NCCL_SOCKET_FAMILY", s)); err == nil || !strings.Contains(err.Error(),
			"NCCL_SOCKET_FAMILY") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// NCCL_CTA_POLICY is a number, or names of which the one that spares most holds, as in NCCL.
func TestCTAPolicy(t *testing.T) {
	for s, want := range map[string]CTAPolicy{"": CTAPolicyUnset, "0": CTAPolicyDefault, "1": CTAPolicyEfficiency,
		"2": CTAPolicyZero, "default": CTAPolicyDefault, "EFFICIENCY": CTAPolicyEfficiency,
		"Zero|Efficiency": CTAPolicyZero, "DEFAULT|EFFICIENCY": CTAPolicyEfficiency} {
		if c, err := Parse(from("NCCL_CTA_POLICY", s)); err != nil || c.CTAPolicy != want {
			t.Errorf("%q: %d, %v", s, c.CTAPolicy, err)
		}
	}
	for _, s := range []string{"3", "NONE", "ZERO|", "ZERO,EFFICIENCY"} {
		if _, err := Parse(from("NCCL_CTA_POLICY", s)); err == nil || !strings.Contains(err.Error(), "NCCL_CTA_POLICY") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// Buffers are registered unless either variable turns it off.
func TestRegister(t *testing.T) {
	for _, c := range []struct {
		own, nccl string
		off       bool
	}{{"", "", false}, {"auto", "", false}, {"off", "", true}, {"off", "0", true}, {"", "1", true}, {"auto", "1", true},
		{"", "0", false}} {
		if got, err := Parse(from("GOCCL_REGISTER", c.own, "NCCL_P2P_DIRECT_DISABLE", c.nccl)); err != nil ||
			got.NoRegister != c.off {
			t.Errorf("%+v: %v, %v", c, got.NoRegister, err)
		}
	}
	for conf, off := range map[string]bool{"max_split_size_mb:128": false, "expandable_segments:False": false,
		"max_split_size_mb:128, expandable_segments: True": true, "backend:cudaMallocAsync": true} {
		for _, name := range []string{"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"} {
			if got, err := Parse(from(name, conf)); err != nil || got.NoRegister != off {
				t.Errorf("%s=%s: %v, %v", name, conf, got.NoRegister, err)
			}
		}
	}
	if _, err := Parse(from("GOCCL_REGISTER", "1")); err == nil || !strings.Contains(err.Error(), "want auto or off") {
		t.Errorf("%v", err)
	}
}

func TestDefaults(t *testing.T) {
	c, err := Parse(from())
	if err != nil || c.StallWarning != 30*time.Second || !c.Overlap || c.CopyEngine != CopyLarge ||
		c.Device != AnyDevice || c.SeparateGraphs || c.NoProgress || c.NoColor {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = Parse(from("GOCCL_OVERLAP", "0", "GOCCL_COPY_ENGINE", "1", "NCCL_GRAPH_MIXING_SUPPORT", "0", "CUDA_HOME",
		"/a", "CUDA_PATH", "/b", "TERM", "dumb"))
	if err != nil || c.Overlap || c.CopyEngine != CopyAlways || !c.SeparateGraphs || !c.NoProgress ||
		!c.NoColor || !slices.Equal(c.Toolkits, []string{"/a", "/b"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestWithoutColors(t *testing.T) {
	for name, progress := range map[string]bool{"NO_COLOR": true, "CI": false} {
		if c, err := Parse(from(name, "1")); err != nil || c.NoColor != progress || c.NoProgress == progress {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// Every name is in the table once, and goccl's own variables have a purpose.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Variables() {
		if seen[v.Name] || seen[v.Alias] && v.Alias != "" {
			t.Errorf("%s or %s is there twice", v.Name, v.Alias)
		}
		seen[v.Name], seen[v.Alias] = true, true
		if strings.HasPrefix(v.Name, "GOCCL_") && v.Brief == "" && v.Name != "GOCCL_PERF_TERMINAL" {
			t.Errorf("%s has no purpose", v.Name)
		}
	}
}

func TestUnread(t *testing.T) {
	environ := []string{"NCCL_ALGO=Ring", "NCCL_IB_HCA=mlx5_0", "NCCL_IB_QPS_PER_CONNECTION=2",
		"NCCL_CHECK_POINTERS=1", "NCCL_P2P_LEVEL=",
		"NCCL_DEBUG=INFO", "NCCL_ALGO=Tree"}
	if got := Unread(environ); !slices.Equal(got, []string{"NCCL_ALGO", "NCCL_IB_QPS_PER_CONNECTION"}) {
		t.Errorf("%v", got)
	}
	page, err := os.ReadFile("../../docs/environment.md")
	if err != nil {
		t.Skip(err) // not a checkout
	}
	_, ignored, _ := strings.Cut(string(page), "\n### Ignored\n")
	for _, name := range unread {
		if !strings.Contains(ignored, "`"+name+"`") {
			t.Errorf("docs/environment.md does not say why %s is not read", name)
		}
	}
}

// -1 is NCCL's way to write that the address is chosen.
func TestGIDIndex(t *testing.T) {
	for s, want := range map[string]int{"-1": -1, "0": 0, "3": 3} {
		if c, err := Parse(from("NCCL_IB_GID_INDEX", s)); err != nil || c.IB.GIDIndex != want {
			t.Errorf("%q: %d, %v", s, c.IB.GIDIndex, err)
		}
	}
}

func TestOpTimeout(t *testing.T) {
	for s, want := range map[string]time.Duration{"": time.Hour, "0": 0, "5": 5 * time.Second} {
		c, err := Parse(from("GOCCL_OP_TIMEOUT", s))
		if got := c.OpTimeoutOr(time.Hour); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

// TCP sends again between the end of a blip and the time when its host counts as dead, also where its repetitions come
// up to 10 % late.
func TestUnreachable(t *testing.T) {
	for blip := 100 * time.Millisecond; blip < 10*time.Minute; blip += 50 * time.Millisecond {
		dead, repeated := Unreachable(blip), false
		for again := 200 * time.Millisecond; again+again/10 < dead; again = 2*again + 200*time.Millisecond {
			repeated = repeated || again >= blip
		}
		if !repeated || dead < blip+time.Second || dead > 2*blip+time.Second+blip/2 {
			t.Fatalf("a blip of %v: dead after %v", blip, dead)
		}
	}
	if dead := Unreachable(0); dead != 4*time.Second {
		t.Errorf("dead after %v", dead)
	}
}
