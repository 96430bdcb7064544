package plan

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSchemaKnowsTheOps compares the schema and the specification with the table of ops in the code.
func TestSchemaKnowsTheOps(t *testing.T) {
	var s struct {
		Defs struct {
			Op struct {
				Properties struct {
					Name struct{ Enum []OpName }
					Src  struct{ MaxItems int } `json:"src_buff"`
				}
			}
			Threadblock struct {
				Properties struct {
					Ops struct{ MaxItems int }
				}
			}
		} `json:"$defs"`
		Properties struct {
			Gpus struct{ MaxItems int }
		}
	}
	if err := json.Unmarshal(Schema, &s); err != nil {
		t.Fatal(err)
	}
	spec, err := os.ReadFile("../docs/plan-format.md")
	if err != nil {
		t.Fatal(err)
	}
	names := s.Defs.Op.Properties.Name.Enum
	for _, k := range opKinds {
		name := k.Name
		if !slices.Contains(names, name) {
			t.Errorf("the schema lacks op %q", name)
		}
		if !strings.Contains(string(spec), "`"+string(name)+"`") {
			t.Errorf("the specification lacks op %q", name)
		}
	}
	if len(names) != len(opKinds) {
		t.Errorf("the schema has %d ops and the code %d", len(names), len(opKinds))
	}
	if n := s.Defs.Op.Properties.Src.MaxItems; n != Capacity.BuffersPerOp {
		t.Errorf("%d operands in the schema", n)
	}
	if n := s.Defs.Threadblock.Properties.Ops.MaxItems; n != Capacity.Ops {
		t.Errorf("%d ops in the schema", n)
	}
	if n := s.Properties.Gpus.MaxItems; n != Capacity.Ranks {
		t.Errorf("%d ranks in the schema", n)
	}
}
