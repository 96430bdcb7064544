package proc

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "12"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want Stat
		bad  bool
	}{
		{"12 (a) b (c)) S 7 12 12 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 991 5", Stat{"a) b (c)", 'S', 7, 991}, false},
		{"12 (a", Stat{}, true}, {"12 (a) S 7", Stat{"a", 'S', 7, 0}, false}, {"12 (a) ", Stat{}, true}, {"", Stat{}, true},
	} {
		if err := os.WriteFile(filepath.Join(root, "12", "stat"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(root, 12); (err != nil) != c.bad || err == nil && got != c.want {
			t.Errorf("%q is %+v, %v", c.text, got, err)
		}
	}
	if _, err := Read(root, 13); !os.IsNotExist(err) {
		t.Errorf("a process that does not exist: %v", err)
	}
	if own, err := Read("/proc", os.Getpid()); err != nil || own.Parent != os.Getppid() || own.Born == 0 {
		t.Errorf("this process is %+v, %v", own, err)
	}
}
