package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/sketch"
)

const small = `{
 "name": "s", "collective": "allreduce", "protocol": "Simple", "inplace": true,
 "gpus": [
  {"id": 0, "input_chunks": 1, "output_chunks": 0, "scratch_chunks": 1, "colour": "red",
   "channels": [{"channel_type": "switch", "buff": "s", "rank_groups": [{"size": 2, "ranks": [0, 1]}]}],
   "threadblocks": [
    {"id": 0, "ops": [
      {"name": "nop"},
      {"name": "glre", "channel_type": "switch", "buffer_type": "s", "buffer_offset": 0, "size": 1, "channel_ids": [0],
       "dst_chunk": {"type": "i", "index": 0, "size": 1}, "reduce_op": "sum"}],
     "channels": [{"channel_type": "switch", "channel_ids": [0], "buff": "s"}]}]},
  {"id": 1, "input_chunks": 1, "scratch_chunks": 1,
   "channels": [{"channel_type": "switch", "buffer_type": "s", "rank_groups": [{"size": 2, "ranks": [0, 1]}]}]}]}`

func TestDecodeForms(t *testing.T) {
	p, warnings, err := plan.DecodeWithWarnings([]byte(small), &plan.Capacity)
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || warnings[0].Line != 4 || !strings.Contains(warnings[0].Text, `rank 0: unknown key "colour"`) {
		t.Errorf("warnings %v", warnings)
	}
	if p.ThreadsPerBlock != 1024 || p.Alignment != 16 || p.MaxSize != 1<<64-1 || p.SchemaVersion != 1 {
		t.Errorf("defaults %+v", p)
	}
	if got := p.GPUs[0].Channels[0].BufferType; got != plan.Scratch {
		t.Errorf("buff gives %q", got)
	}
	op := p.GPUs[0].ThreadBlocks[0].Ops[1]
	if want := []plan.Chunk{plan.Switch(0, 0, 1)}; !slices.Equal(op.Src, want) {
		t.Errorf("%+v, want %+v", op.Src, want)
	}
	once := p.Encode()
	if !json.Valid(once) {
		t.Fatalf("not JSON: %s", once)
	}
	q, err := plan.Decode(once)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(q.Encode(), once) {
		t.Error("writing what was read differs")
	}
	p.SchemaVersion = plan.SchemaVersion
	p.GPUs[0].ThreadBlocks[0].Ops[1].ChannelIDs = op.ChannelIDs
	if got, want := q.GPUs[0].ThreadBlocks, p.GPUs[0].ThreadBlocks; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestDecodeFaults(t *testing.T) {
	replace := func(old, new string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(small, old, new, 1)
	}
	for _, c := range []struct {
		name, text, want string
		class            error
	}{
		{"empty", "", "plan: 1:1: found the end of the file where an object belongs", plan.ErrSyntax},
		{"after", small + " x", "after the plan", plan.ErrSyntax},
		{"zero byte after", small + "\x00", "after the plan", plan.ErrSyntax},
		{"missing", replace(`"protocol": "Simple", `, ""), `the plan has no "protocol"`, plan.ErrSyntax},
		{"twice", replace(`"id": 0,`, `"id": 0, "id": 0,`), `4:13: key "id" comes twice`, plan.ErrSyntax},
		{"fraction", replace(`"input_chunks": 1`, `"input_chunks": 1.5`), "4:29: a fraction where a whole number belongs",
			plan.ErrSyntax},
		{"huge", replace(`"input_chunks": 1`, `"input_chunks": 99999999999999999999`),
			"a number beyond 64 bits", plan.ErrSyntax},
		{"deep", strings.Repeat("[", 100), "found a list where an object belongs", plan.ErrSyntax},
		{"deep unknown", `{"x":` + strings.Repeat("[", 100), "nested deeper than 32", plan.ErrSyntax},
		{"utf8", replace(`"red"`, "\"\xff\""), "a string that is not UTF-8", plan.ErrSyntax},
		{"op", replace(`"nop"`, `"nopp"`),
			`8:16: rank 0, thread block 0, op 0: name: there is no op "nopp"`, plan.ErrInvalid},
		{"bounds", replace(`"buffer_offset": 0`, `"buffer_offset": 1`),
			`src_buff[0].index: chunks 1 to 1 of a buffer "s" of 1 chunks`, plan.ErrInvalid},
		{"limit", replace(`"input_chunks": 1`, `"input_chunks": 2000000`),
			"input_chunks: the number of chunks is 2000000 and the limit is 1048576", plan.ErrLimit},
		{"id", replace(`"id": 1`, `"id": 2`), "rank 1: id: rank 2 stands at position 1", plan.ErrInvalid},
		{"group", replace(`"size": 2`, `"size": 3`), "a group of size 3 lists 2 ranks", plan.ErrSyntax},
		{"channels", replace(`"channel_ids": [0],`, `"channel_ids": [`+strings.Repeat("0,", 256)+`0],`),
			"channel_ids: more than 256 entries", plan.ErrLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := plan.Decode([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, c.class) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestPortableLimits(t *testing.T) {
	p := sketch.AllGatherPut(12, 1)
	if err := p.Validate(&plan.Capacity); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(&plan.Portable); !errors.Is(err, plan.ErrLimit) {
		t.Fatalf("11 channels in an op: %v", err)
	}
}

// Names reach terminals and logs, so a plan whose name would act there is refused, built or decoded.
func TestNamesArePrintable(t *testing.T) {
	for _, bad := range []string{`\u001b[2J`, `a\nb`, `\u007f`, `\u009b31m`, `a\u202eb`} {
		for field, old := range map[string]string{"name": `"name": "s"`, "collective": `"collective": "allreduce"`} {
			_, err := plan.Decode([]byte(strings.Replace(small, old, `"`+field+`": "`+bad+`"`, 1)))
			var e *plan.Error
			if !errors.As(err, &e) || e.Class != plan.ErrInvalid || e.Field != field ||
				strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%s %s: %v", field, bad, err)
			}
		}
	}
	if _, err := plan.Decode([]byte(strings.Replace(small, `"name": "s"`, `"name": "größe 2 – 環"`, 1))); err != nil {
		t.Error(err)
	}
}
