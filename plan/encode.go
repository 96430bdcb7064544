package plan

import (
	"math"
	"strconv"
)

// Encode writes the plan as JSON, one op per line. The bytes depend only on the plan, and Decode(Encode(p)) encodes to
// the same bytes. It always writes SchemaVersion, and omits fields that are empty or have no meaning for an op.
func (p *Plan) Encode() []byte {
	w := &writer{}
	q := *p
	q.SchemaVersion = SchemaVersion
	unlimited := &Limits{TotalOps: math.MaxInt, TotalOperands: math.MaxInt}
	(&codec{r: &decoder{limits: unlimited, pos: nowhere}, w: w}).plan(&q)
	return append(w.b, '\n')
}

// writer appends JSON. fresh is true right after an opening bracket, where no comma is due. lines is true in an object
// whose members are on lines of their own, depth blanks in.
type writer struct {
	b     []byte
	fresh bool
	lines bool
	depth int
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

// object writes an object, with its members on lines of their own or all on one line.
func (w *writer) object(lines bool, body func()) {
	outer := w.lines
	w.begin('{', lines)
	w.lines = lines
	body()
	w.lines = outer
	w.end('}', lines)
}

// list writes a list, with its elements on lines of their own or all on one line.
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
