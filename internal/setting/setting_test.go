package setting

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	const name, otherwise = "GOCCL_TEST_SETTING", 7 * time.Second
	for s, want := range map[string]time.Duration{"": otherwise, "5": 5 * time.Second, "0.5": 500 * time.Millisecond,
		"2m": 2 * time.Minute, "0": 0, "0s": 0} {
		t.Setenv(name, s)
		if d, err := Duration(name, otherwise); err != nil || d != want {
			t.Errorf("%q: %v, %v", s, d, err)
		}
		if d, err := Positive(name, otherwise); (err == nil) != (want > 0) {
			t.Errorf("positive %q: %v, %v", s, d, err)
		}
	}
	for _, s := range []string{"x", "-1", "-5s", "NaN", "1e99", "30 s"} {
		t.Setenv(name, s)
		if d, err := Duration(name, otherwise); err == nil {
			t.Errorf("%q: %v", s, d)
		}
	}
}
