package figure

import "testing"

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		t     *Target
		value float64
		met   bool
	}{{UpTo(1), 1, true}, {UpTo(1), 1.01, false}, {AtLeast(370), 370, true}, {AtLeast(370), 369.9, false}} {
		if c.t.Met(c.value) != c.met {
			t.Errorf("%v and %g", c.t, c.value)
		}
	}
}
