package pickle

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goccl/goccl/test/mutate"
)

const value = `{"version": "2.4", "n": [0, 1, -1, 255, 256, 65535, 65536, -70000, 2**31, 2**40, -2**40], "x": 1.5,
"none": None, "yes": True, "no": False, "t": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "long": "ä" * 300,
"shared": [s, s], 7: "seven", "big": 2**70}`

// Pickles of Python, by every binary protocol, hold what json says of the same value.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("needs python3: %v", err)
	}
	program := "import sys,json,pickle\ns=['a','b']\nv=" + value + "\n" +
		"sys.stdout.buffer.write(json.dumps(v).encode() if sys.argv[1]=='json' else pickle.dumps(v,int(sys.argv[1])))"
	dump := func(how string) []byte {
		out, err := exec.Command(python, "-c", program, how).Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var want any
	if err := json.Unmarshal(dump("json"), &want); err != nil {
		t.Fatal(err)
	}
	for protocol := 1; protocol <= 5; protocol++ {
		v, err := Load(dump(fmt.Sprint(protocol)))
		if err != nil {
			t.Fatalf("protocol %d: %v", protocol, err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("protocol %d: %s", protocol, d)
		}
	}
}

// A pickle that would run something is refused, and so are damaged ones.
func TestRefused(t *testing.T) {
	for name, b := range map[string]string{
		"os.system":     "cos\nsystem\n(S'id'\ntR.",
		"stack global":  "\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.",
		"nothing":       "",
		"short":         "\x80\x02X\xff\xff\xff\x7fabc",
		"no mark":       "\x80\x02t.",
		"contains self": "\x80\x02]q\x00h\x00a.",
		"unknown memo":  "\x80\x02h\x05.",
		"odd dict":      "\x80\x02}(K\x01u.",
	} {
		if v, err := Load([]byte(b)); err == nil {
			t.Errorf("%s: %v", name, v)
		}
	}
	bomb := "\x80\x02]q\x00"
	for range 40 { // each list holds the one before twice
		bomb += "q\x00](h\x00h\x00eq\x00"
	}
	if _, err := Load([]byte(bomb + ".")); err == nil {
		t.Error("2^40 values are copied")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00b]q\x01(K\x02\x88eu."))
	f.Add([]byte("\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94G?\xf0\x00\x00\x00\x00\x00\x00u."))
	mutate.Fuzz(f, func(t *testing.T, b []byte) {
		if v, err := Load(b); err == nil {
			if _, err := json.Marshal(v); err != nil && !strings.Contains(err.Error(), "unsupported value") {
				t.Error(err)
			}
		}
	})
}
