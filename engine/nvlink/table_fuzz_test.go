package nvlink

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/test/mutate"
)

// FuzzTable: a tuning table is refused with a reason, or can be written and read again.
func FuzzTable(f *testing.F) {
	entries, err := tables.ReadDir("tables")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		data, err := tables.ReadFile("tables/" + e.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"gpu":"x","ranks":2,"collectives":{"broadcast":[{"bytes":0,"algorithm":"one_shot_ll/4"}]}}`))
	f.Add([]byte(`{"version":2,"collectives":{"all_reduce":[{"bytes":-1,"algorithm":"two_shot_ll128/1000000000000"}]}}`))
	mutate.Fuzz(f, func(t *testing.T, data []byte) {
		table, err := decodeTable("fuzz", data)
		if err != nil {
			if !errors.Is(err, collective.ErrInvalidArgument) {
				t.Fatalf("%v is of no class", err)
			}
			return
		}
		text, err := json.Marshal(table)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeTable("again", text)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v\n%s", err, text)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(second, text) {
			t.Fatalf("%s\nis read as\n%s, %v", text, second, err)
		}
	})
}
