package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Encode writes the plan as JSON, one op per line. The bytes depend only on the plan, and Decode(Encode(p)) encodes to
// the same bytes. It always writes SchemaVersion, and omits fields that are empty or have no meaning for an op.
func (p *Plan) Encode() []byte {
	w := &writer{}
	w.plan(p)
	return append(w.b, '\n')
}

// EncodeParts passes the encoding of the plan to visit, in parts, until visit fails. gpu makes the part of a rank when
// it is written. A plan that Decode would refuse for its length is ErrLimit, before the first part if the examples show
// it: each of them stands for so many ranks.
func (p *Plan) EncodeParts(gpu func(rank int) GPU, examples []int, each int, visit func(part []byte) error) error {
	w, total := &writer{}, 0
	var err error
	add := func(bytes int) {
		if total += bytes; total > Capacity.FileBytes && err == nil {
			err = &Error{Class: ErrLimit, Pos: Nowhere, Detail: fmt.Sprintf("a file of plan %s has over %d MiB and the "+
				"limit is %d: use fewer ranks or instances, or name the program where a plan is wanted",
				p.Name, total>>20, Capacity.FileBytes>>20)}
		}
	}
	for _, r := range examples {
		(&codec{r: writes(), w: w}).gpu(&p.GPUs[r])
	}
	if add(len(w.b) * each); err != nil {
		return err
	}
	w, total = &writer{gpu: gpu}, 0
	w.flush = func() {
		if add(len(w.b)); err == nil {
			err = visit(w.b)
		}
		w.b = w.b[:0]
	}
	w.plan(p)
	w.b = append(w.b, '\n')
	w.flush()
	return err
}

// writes returns the decoder of a codec that writes: it limits nothing.
func writes() *decoder {
	return &decoder{limits: &Limits{TotalOps: math.MaxInt, TotalOperands: math.MaxInt}, pos: Nowhere}
}

func (w *writer) plan(p *Plan) {
	q := *p
	q.SchemaVersion = SchemaVersion
	(&codec{r: writes(), w: w}).plan(&q)
}

// writer appends JSON. fresh is true right after an opening bracket, where no comma is due. lines is true in an object
// with each member on a line, depth blanks in.
type writer struct {
	b     []byte
	fresh bool
	lines bool
	depth int

	gpu   func(rank int) GPU // makes the programs of a folded plan, or nil
	flush func()             // takes b after each rank
}

func (w *writer) comma() {
	if !w.fresh {
		w.b = append(w.b, ',')
	}
	w.fresh = false
}

func (w *writer) indent() {
	w.b = append(w.b, '\n')
	for range w.depth {
		w.b = append(w.b, ' ')
	}
}

// member begins a member, and returns true.
func (w *writer) member(k string) bool {
	w.comma()
	if w.lines {
		w.indent()
	}
	w.b = append(quote(w.b, k), ':')
	return true
}

func (w *writer) int(v int64) { w.b = strconv.AppendInt(w.b, v, 10) }

// object writes an object, with each member on a line or all on one line.
func (w *writer) object(lines bool, body func()) {
	outer := w.lines
	w.begin('{', lines)
	w.lines = lines
	body()
	w.lines = outer
	w.end('}', lines)
}

// list writes a list, with each element on a line or all on one line.
func (w *writer) list(lines bool, n int, element func(i int)) {
	w.begin('[', lines)
	for i := range n {
		w.comma()
		if lines {
			w.indent()
		}
		element(i)
	}
	w.end(']', lines && n > 0)
	if lines && n == 0 {
		w.depth--
	}
}

func (w *writer) begin(bracket byte, lines bool) {
	w.b, w.fresh = append(w.b, bracket), true
	if lines {
		w.depth++
	}
}

func (w *writer) end(bracket byte, lines bool) {
	if lines {
		w.depth--
		w.indent()
	}
	w.b, w.fresh = append(w.b, bracket), false
}

// quote appends s as a JSON string.
func quote(dst []byte, s string) []byte {
	plain := func(r rune) bool { return r >= ' ' && r < utf8.RuneSelf && r != '"' && r != '\\' }
	if !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) { // almost all
		return append(append(append(dst, '"'), s...), '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string has no errors: an invalid byte becomes U+FFFD
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
