package plan

import (
	"encoding/json"
	"testing"
)

// TestSchemaKnowsTheLimits compares the schema with Capacity. That it knows the ops is held by
// tools/docgen.
func TestSchemaKnowsTheLimits(t *testing.T) {
	var s struct {
		Defs struct {
			Op struct {
				Properties struct {
					Src struct{ MaxItems int } `json:"src_buff"`
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
