package plan

import (
	"fmt"
	"slices"
	"strconv"
	"unique"
)

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
