package dsl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/goccl/goccl/plan"
)

// ChunkRef refers to chunks [Index, Index+Size) of a rank's view: its input, its output or, with View set, the scratch
// buffer of that number.
type ChunkRef struct {
	Rank   int        `json:"rank"`
	Buffer BufferType `json:"buffer,omitempty"`
	View   *int       `json:"view,omitempty"`
	Index  int        `json:"index"`
	Size   int        `json:"size"`
}

// Document is a whole program as data: an AlgoSpec, with its collective by name, and commands.
type Document struct {
	AlgoSpec
	Collective    string      `json:"collective"`
	ChunkFactor   int         `json:"chunk_factor,omitempty"` // 0: 1
	Root          int         `json:"root,omitempty"`
	InputChunks   int         `json:"input_chunks,omitempty"`  // of a user-defined collective
	OutputChunks  int         `json:"output_chunks,omitempty"` // of a user-defined collective
	Postcondition []PostEntry `json:"postcondition,omitempty"`
	Fusion        *bool       `json:"instr_fusion,omitempty"` // absent: true
	AutoSync      *bool       `json:"auto_sync,omitempty"`    // absent: true
	Commands      []Command   `json:"commands"`
}

// PostEntry states the contents of one output chunk: the reduction of input chunks, each a pair of rank and chunk.
type PostEntry struct {
	Rank  int      `json:"rank"`
	Chunk int      `json:"chunk"`
	Of    [][2]int `json:"of"`
}

// CompileJSON compiles a Document. Unknown keys are rejected.
func CompileJSON(data []byte) (*plan.Plan, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var doc Document
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("dsl: program document: %w: %w", ErrUsage, err)
	}
	p, err := FromDocument(&doc)
	if err != nil {
		return nil, err
	}
	return p.Compile()
}

// FromDocument replays a document into a program.
func FromDocument(doc *Document) (*CollectiveProgram, error) {
	c, err := doc.collective()
	if err != nil {
		return nil, err
	}
	no := func(b *bool) bool { return b != nil && !*b }
	spec := doc.AlgoSpec
	spec.Collective, spec.NoFusion, spec.NoAutoSync = c, no(doc.Fusion), no(doc.AutoSync)
	p := NewCollectiveProgram(spec)
	if err := p.Err(); err != nil {
		return nil, err
	}
	r := &replay{p: p, channels: map[ChannelType][]*channel{}}
	for i := range doc.Commands {
		r.command(&doc.Commands[i])
	}
	p.At("", 0)
	return p, nil
}

// These bound what the compiler allocates for an untrusted document.
const (
	maxDocumentRanks  = 1 << 13
	maxDocumentChunks = 1 << 20
)

func (doc *Document) collective() (Collective, error) {
	n, cf := doc.WorldSize, cmp.Or(doc.ChunkFactor, 1)
	bad := func(format string, args ...any) (Collective, error) {
		return Collective{}, &Error{Kind: ErrSpec, Detail: fmt.Sprintf(format, args...)}
	}
	if n < 1 || n > maxDocumentRanks || cf < 1 || cf > maxDocumentChunks/n || doc.Root < 0 || doc.Root >= n {
		return bad("%d ranks, chunk factor %d, root %d", n, cf, doc.Root)
	}
	if name := plan.Collective(doc.Collective); name.Known() {
		return Named(name, n, cf, doc.Root, doc.InPlace), nil
	}
	if doc.Collective == "" {
		return bad("the document names no collective")
	}
	if doc.InputChunks < 0 || doc.InputChunks > maxDocumentChunks || doc.OutputChunks < 0 ||
		doc.OutputChunks > maxDocumentChunks {
		return bad("collective %s with %d input and %d output chunks", doc.Collective, doc.InputChunks, doc.OutputChunks)
	}
	post := map[[2]int][]Contribution{}
	for _, e := range doc.Postcondition {
		for _, of := range e.Of {
			post[[2]int{e.Rank, e.Chunk}] = append(post[[2]int{e.Rank, e.Chunk}], Contribution{of[0], of[1]})
		}
	}
	return Custom(doc.Collective, n, doc.InputChunks, doc.OutputChunks, doc.InPlace, func(rank, chunk int) []Contribution {
		return post[[2]int{rank, chunk}]
	}), nil
}
