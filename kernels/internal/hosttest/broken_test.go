package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// breakage is an edit that breaks a protocol when the program is called with its name. One without a name makes another
// visible.
type breakage struct {
	name string
	edit
}

// brokenHeaders writes copies of headers with all edits, and with shared memory as the emulation has it, and returns
// the folder to include from. Headers are named as #include names them.
func brokenHeaders(t *testing.T, headers []string, edits []edit) string {
	t.Helper()
	texts := make(map[string]string)
	for _, name := range headers {
		path := filepath.Join("../..", name)
		if strings.HasPrefix(name, "goccl/") {
			path = filepath.Join("../../include", name)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = reShared.ReplaceAllString(string(text), "$1* $2 = static_cast<$1*>(sharedMemory(sizeof($1) * ($3)));")
	}
	for _, e := range edits {
		if n := strings.Count(texts[e.file], e.old); n != 1 {
			t.Fatalf("%s has %q %d times: want it once; bring the test's edits up to date", e.file, e.old, n)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.old, e.new, 1)
	}
	return written(t, texts)
}

// written writes headers and returns the folder to include from.
func written(t *testing.T, texts map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func editsOf(all []breakage) (edits []edit) {
	for _, b := range all {
		edits = append(edits, b.edit)
	}
	return edits
}

// works runs a program as it is.
func works(t *testing.T, program string) {
	t.Helper()
	if out, ok := run(t, program); !ok {
		t.Fatalf("as it is:\n%s", out)
	}
}

// notices runs a program with weak memory order, and then with each breakage. It must fail each time.
func notices(t *testing.T, program string, all []breakage) {
	t.Helper()
	for _, name := range []string{"acquire", "release"} {
		if !caught(t, program, always(name)) {
			t.Errorf("with relaxed %s it passes", name)
		}
	}
	for _, b := range all {
		if b.name != "" && !caught(t, program, always(b.name)) {
			t.Errorf("broken (%s), it passes", b.name)
		}
	}
}
