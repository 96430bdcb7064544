package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestRead(t *testing.T) {
	stamped := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc123"},
		{Key: "vcs.modified", Value: "true"}, {Key: "CGO_ENABLED", Value: "1"}}}
	tagged := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}
	for _, c := range []struct {
		name            string
		bi              *debug.BuildInfo
		linked          string
		version, commit string
		cgo             bool
	}{
		{"nothing known", &debug.BuildInfo{}, "", "devel", "unknown", false},
		{"stamped by go build", stamped, "", "devel", "abc123-dirty", true},
		{"installed from a proxy", tagged, "", "v1.2.3", "unknown", false},
		{"linked, untagged", &debug.BuildInfo{}, "bd9f544-dirty", "bd9f544-dirty", "bd9f544-dirty", false},
		{"linked, after a tag", &debug.BuildInfo{}, "v0.1.0-12-gbd9f544", "v0.1.0-12-gbd9f544", "bd9f544", false},
		{"linked and stamped", stamped, "v0.1.0", "v0.1.0", "abc123-dirty", true},
	} {
		i := read(c.bi, c.linked)
		if i.Version != c.version || i.Commit != c.commit || i.Cgo != c.cgo {
			t.Errorf("%s: version %q commit %q cgo %v, want %q %q %v", c.name, i.Version, i.Commit, i.Cgo, c.version, c.commit,
				c.cgo)
		}
	}
	if i := Read(); i.Go == "" || i.OS != "linux" {
		t.Errorf("Read() = %+v", i)
	}
}
