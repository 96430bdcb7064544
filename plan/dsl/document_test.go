package dsl

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl/test/mutate"
)

const gatherDocument = `{"name":"ag2","collective":"allgather","ranks":2,"commands":[
 {"op":"memory_channel","dst":1,"src":0},{"op":"memory_channel","dst":0,"src":1},
 {"op":"signal","channel_type":"memory","channel":0,"tb":0,"relaxed":true},
 {"op":"wait","channel_type":"memory","channel":0,"tb":0,"relaxed":true,"sync":"after"},
 {"op":"signal","channel_type":"memory","channel":1,"tb":0,"relaxed":true},
 {"op":"wait","channel_type":"memory","channel":1,"tb":0,"relaxed":true,"sync":"after"},
 {"op":"copy","to":{"rank":0,"buffer":"o","index":0,"size":1},"from":{"rank":0,"buffer":"i","index":0,"size":1},"tb":0},
 {"op":"copy","to":{"rank":1,"buffer":"o","index":1,"size":1},"from":{"rank":1,"buffer":"i","index":0,"size":1},"tb":0},
 {"op":"put","channel_type":"memory","channel":0,"to":{"rank":1,"buffer":"o","index":0,"size":1},
  "from":{"rank":0,"buffer":"i","index":0,"size":1},"tb":0},
 {"op":"put","channel_type":"memory","channel":1,"to":{"rank":0,"buffer":"o","index":1,"size":1},
  "from":{"rank":1,"buffer":"i","index":0,"size":1},"tb":0},
 {"op":"signal","channel_type":"memory","channel":0,"tb":0},{"op":"wait","channel_type":"memory","channel":0,"tb":0},
 {"op":"signal","channel_type":"memory","channel":1,"tb":0},{"op":"wait","channel_type":"memory","channel":1,"tb":0}]}`

func TestDocumentEqualsTheProgramInGo(t *testing.T) {
	made, err := CompileJSON([]byte(gatherDocument))
	if err != nil {
		t.Fatal(err)
	}
	p := NewCollectiveProgram(AlgoSpec{Name: "ag2", Collective: AllGather(2, 1, false)})
	for r := range 2 {
		q := 1 - r
		c := p.MemoryChannel(q, r)
		c.Signal(TB(0), Relaxed())
		c.Wait(TB(0), Relaxed(), Sync(SyncAfter))
		p.Rank(r).Copy(p.Rank(r).Output().Chunk(r), p.Rank(r).Input().Chunk(0), TB(0))
		c.Put(p.Rank(q).Output().Chunk(r), p.Rank(r).Input().Chunk(0), TB(0))
		c.Signal(TB(0))
		c.Wait(TB(0))
	}
	got := made.Encode()
	if want := proven(t, p).Encode(); !bytes.Equal(got, want) {
		t.Errorf("document gives\n%s\nprogram gives\n%s", got, want)
	}
}

func TestDocumentErrorsPointAtTheAuthor(t *testing.T) {
	doc := strings.Replace(gatherDocument, `"op":"copy","to"`, `"op":"copy","file":"my_model.py","line":7,"to"`, 1)
	doc = strings.Replace(doc, `"index":0,"size":1},"from"`, `"index":9,"size":1},"from"`, 1)
	_, err := CompileJSON([]byte(doc))
	var e *Error
	if !errors.As(err, &e) || e.Position != (Position{"my_model.py", 7}) || !errors.Is(err, ErrRange) {
		t.Errorf("error %v, want a range error at my_model.py:7", err)
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	for _, c := range []string{
		``, `[]`, `{"name":"x","ranks":2,"collective":"allreduce","commands":[{"op":"put","surprise":1}]}`,
		`{"name":"x","collective":"allreduce","ranks":-1,"commands":[]}`,
		`{"name":"x","collective":"allreduce","ranks":1000000,"commands":[]}`,
		`{"name":"x","collective":"","ranks":2,"commands":[]}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"signal","channel_type":"memory","channel":3}]}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"acquire","semaphore":-1}]}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"copy"}]}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"scratch","rank":7,"size":1}]}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"scratch","size":99999999}]}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"switch_reduce","channel":0}]}`,
		`{"name":"x","collective":"allreduce","ranks":2,"commands":[{"op":"dance"}]}`,
	} {
		if _, err := CompileJSON([]byte(c)); err == nil {
			t.Errorf("accepted %s", c)
		}
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(gatherDocument))
	f.Add([]byte(`{"name":"x","collective":"mine","ranks":2,"input_chunks":1,"output_chunks":1,
 "postcondition":[{"rank":0,"chunk":0,"of":[[1,0]]}],
 "commands":[{"op":"switch_channel","ranks":[0,1],"buffer":"i"},
 {"op":"switch_reduce","channel":0,"rank":0,"size":1,"to":{"rank":0,"buffer":"o","size":1}},
 {"op":"scratch","rank":0,"size":2},{"op":"begin_loop","unit":64,"chunks":1},{"op":"end_loop"},
 {"op":"barrier","rank":0,"blocks":[0,1]}]}`))
	mutate.Fuzz(f, func(t *testing.T, data []byte) {
		out, err := CompileJSON(data)
		if err == nil && out == nil {
			t.Error("no error and no plan")
		}
	})
}
