package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unique"
)

// codec reads the JSON of a plan or, if w is set, writes it. The functions that describe an object (codec_plan.go)
// serve both directions, so that each key is stated once. To read, such a function is called for every key of the
// object, and the value goes to the field that asks for the key. To write, it is called once, and the members come in
// its order.
type codec struct {
	r   *decoder // to write, it has no text and no limits
	w   *writer
	key string // to read: the key whose value comes next, until a field takes it; else ""
}

// take reports whether the value of key is to be read next.
func (c *codec) take(key string) bool { return c.key == key && c.taken() }

func (c *codec) taken() bool {
	c.key = ""
	return true
}

// member reports whether the value of key is to be read, or written, next.
func (c *codec) member(key string) bool { return c.take(key) || c.w != nil && c.w.member(key) }

// has is true to read, and to write it is ok: whether there is something to write.
func (c *codec) has(ok bool) bool { return c.w == nil || ok }

// object reads or writes an object, with each member on a line or all on one line. It returns the keys that
// were read, until the next key is read.
func (c *codec) object(lines bool, fields func()) (keys []string) {
	if c.w != nil {
		c.w.object(lines, fields)
		return nil
	}
	d, mark := c.r, len(c.r.seen)
	d.open('{')
	for first := true; d.more('}', &first); {
		if c.key = d.member(mark); c.key == "" {
			break
		}
		key := c.key
		if fields(); c.key != "" {
			c.key = ""
			d.unknown(key)
		}
	}
	keys, d.seen = d.seen[mark:], d.seen[:mark]
	return keys
}

func (c *codec) int(key string, v *int) {
	if c.member(key) {
		c.bareInt(v)
	}
}

func (c *codec) bareInt(v *int) {
	if c.w != nil {
		c.w.b = strconv.AppendInt(c.w.b, int64(*v), 10)
		return
	}
	*v = c.r.int()
}

func (c *codec) int64(key string, v *int64) {
	scalar(c, key, v, (*decoder).int64, func(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) })
}

func (c *codec) uint(key string, v *uint64) {
	scalar(c, key, v, (*decoder).uint, func(b []byte, v uint64) []byte { return strconv.AppendUint(b, v, 10) })
}

func (c *codec) bool(key string, v *bool) { scalar(c, key, v, (*decoder).bool, strconv.AppendBool) }

func scalar[T any](c *codec, key string, v *T, read func(*decoder) T, write func([]byte, T) []byte) {
	switch {
	case !c.member(key):
	case c.w != nil:
		c.w.b = write(c.w.b, *v)
	default:
		*v = read(c.r)
	}
}

// word is a short string.
func word[T ~string](c *codec, key string, v *T) {
	if c.member(key) {
		bareWord(c, key, v)
	}
}

func bareWord[T ~string](c *codec, what string, v *T) {
	if c.w != nil {
		c.w.b = quote(c.w.b, string(*v))
		return
	}
	*v = T(c.r.word(what))
}

// list is a list of at most limit elements, which are called what in errors.
func list[T any](c *codec, key, what string, limit int, lines bool, v *[]T, element func(i int, e *T)) {
	if c.member(key) {
		elements(c, key, what, limit, lines, v, element)
	}
}

func elements[T any](c *codec, key, what string, limit int, lines bool, v *[]T, element func(i int, e *T)) {
	if c.w != nil {
		c.w.list(lines, len(*v), func(i int) { element(i, &(*v)[i]) })
		return
	}
	c.r.each(key, what, limit, func(i int) {
		var zero T
		*v = append(*v, zero)
		element(i, &(*v)[i])
	})
}

func (c *codec) ints(key string, v *[]int, limit int) {
	list(c, key, "entries", limit, false, v, func(_ int, e *int) { c.bareInt(e) })
}

// Warning is an unknown key that Decode ignored.
type Warning struct {
	Line, Col int
	Text      string
}

func (w Warning) String() string { return fmt.Sprintf("%d:%d: %s", w.Line, w.Col, w.Text) }

// Decode reads a plan from JSON and validates it against Capacity. Every error is an *Error with the line and column.
// Unknown keys are ignored; DecodeWithWarnings lists them.
func Decode(data []byte) (*Plan, error) {
	p, _, err := DecodeWithWarnings(data, &Capacity)
	return p, err
}

// DecodeWithWarnings decodes and validates a plan against limits, and also returns at most 100 unknown keys.
func DecodeWithWarnings(data []byte, limits *Limits) (*Plan, []Warning, error) {
	if len(data) > limits.FileBytes {
		return nil, nil, &Error{Class: ErrLimit, Pos: Nowhere,
			Detail: fmt.Sprintf("the file has %d bytes and the limit is %d", len(data), limits.FileBytes)}
	}
	d := decoder{scanner: scanner{data: data}, limits: limits, pos: Nowhere}
	p := &Plan{SchemaVersion: 1, ThreadsPerBlock: 1024, Alignment: 16, MaxSize: 1<<64 - 1}
	(&codec{r: &d}).plan(p)
	if d.space(); d.err == nil && d.off < len(data) { // peek would take a zero byte for the end
		d.fail(d.off, "found %s after the plan", d.describe())
	}
	if d.err != nil {
		return nil, d.warnings, d.err
	}
	if err := p.Validate(limits); err != nil {
		err.(*Error).locate(data)
		return nil, d.warnings, err
	}
	return p, d.warnings, nil
}

// decoder turns the scanner's tokens into a Plan. A count over its limit stops it before it stores the next element.
type decoder struct {
	scanner
	limits   *Limits
	pos      Pos
	seen     []string // keys of the open objects, newest last
	warnings []Warning
	ops      int
	operands int
}

// member reads a key of the object whose keys begin at mark. It returns "" after an error. A repeated key is an error,
// because readers differ in which of the values they keep.
func (d *decoder) member(mark int) string {
	d.space()
	at := d.off
	k := unique.Make(string(d.key())).Value()
	if d.err != nil {
		return ""
	}
	if k == "" {
		d.fail(at, "an empty key")
		return ""
	}
	if slices.Contains(d.seen[mark:], k) {
		d.fail(at, "key %q comes twice", k)
		return ""
	}
	d.seen = append(d.seen, k)
	return k
}

func (d *decoder) word(what string) string {
	d.space()
	at := d.off
	b := d.str()
	if len(b) > d.limits.NameBytes {
		d.over(at, what, "bytes", d.limits.NameBytes)
		return ""
	}
	return unique.Make(string(b)).Value()
}

func (d *decoder) over(at int, field, what string, limit int) {
	if d.err != nil {
		return
	}
	d.fail(at, "more than %d %s", limit, what)
	d.err.Class, d.err.Field, d.err.Pos = ErrLimit, field, d.pos
}

func (d *decoder) unknown(key string) {
	if len(d.warnings) < 100 {
		line, col := lineCol(d.data, d.off)
		where := d.pos.String()
		if where != "" {
			where += ": "
		}
		d.warnings = append(d.warnings, Warning{line, col, where + "unknown key " + strconv.Quote(key)})
	}
	d.skip()
}

// each calls read once for every element of a list, at most limit times.
func (d *decoder) each(field, what string, limit int, read func(i int)) {
	d.open('[')
	i := 0
	for first := true; d.more(']', &first); i++ {
		if i >= limit {
			d.over(d.off, field, what, limit)
			return
		}
		read(i)
	}
}

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
