package plan

import "strconv"

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
		c.w.int(int64(*v))
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
