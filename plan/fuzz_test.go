package plan

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/goccl/goccl/test/mutate"
)

// The seeds are large, and by default the fuzzer spends a minute on minimizing each input that it finds. Run with
//
//	go test ./plan -run XXX -fuzz FuzzDecode -fuzzminimizetime 5x
func seeds(f *testing.F) {
	files, err := filepath.Glob("verify/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(txtar.Parse(data).Files[0].Data)
	}
	foreign, err := filepath.Glob("testdata/foreign/*.json")
	if err != nil || len(foreign) == 0 {
		f.Fatal("no foreign plans", err)
	}
	for _, file := range foreign {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"name":"a\u0041\ud83d\ude00","collective":"x","protocol":"LL","inplace":false,
		"gpus":[{"id":0}],"extra":[1.5e3,null,{"a":true}]}`))
}

// FuzzDecode: whatever the bytes, Decode returns an error with a position in the file or a valid plan, and encoding the
// plan is a fixed point.
func FuzzDecode(f *testing.F) {
	seeds(f)
	mutate.Fuzz(f, func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Line < 1 || e.Col < 1 || e.Class == nil {
				t.Fatalf("%#v", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("accepted a text that is not JSON")
		}
		once := p.Encode()
		q, err := Decode(once)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		if twice := q.Encode(); !bytes.Equal(once, twice) {
			t.Fatalf("not a fixed point:\n%s\n%s", once, twice)
		}
	})
}
