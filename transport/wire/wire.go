package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Errors of Reader.Done, wrapped with details.
var (
	ErrFormat  = errors.New("wire: malformed record")
	ErrVersion = errors.New("wire: unknown version")
	ErrKind    = errors.New("wire: another kind of record")
)

const (
	magic      = 0x6c636367 // "gccl"
	headerSize = 12
	tailSize   = 4
	// MaxBody is the longest body that Open accepts.
	MaxBody = 1 << 16
)

// Writer builds a body.
type Writer struct{ b []byte }

// U8 appends one byte; the others append little endian.
func (w *Writer) U8(v uint8)   { w.b = append(w.b, v) }
func (w *Writer) U16(v uint16) { w.b = binary.LittleEndian.AppendUint16(w.b, v) }
func (w *Writer) U32(v uint32) { w.b = binary.LittleEndian.AppendUint32(w.b, v) }
func (w *Writer) U64(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }

// Raw appends bytes; both sides know their number.
func (w *Writer) Raw(p []byte) { w.b = append(w.b, p...) }

// Bytes appends a 16-bit length and the bytes.
func (w *Writer) Bytes(p []byte) {
	w.U16(uint16(len(p)))
	w.Raw(p)
}

// Seal returns the record with the body.
func (w *Writer) Seal(kind, version uint8) []byte {
	out := make([]byte, 0, headerSize+len(w.b)+tailSize)
	out = binary.LittleEndian.AppendUint32(out, magic)
	out = append(out, kind, version, 0, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(w.b)))
	out = append(out, w.b...)
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// Reader decodes a body. After an error every further field is zero and Done returns the error.
type Reader struct {
	b   []byte
	err error
}

// Open returns the body of a record. The error is of Done if it is no record of the given kind and version.
func Open(record []byte, kind, version uint8) *Reader {
	r := &Reader{}
	end := len(record) - tailSize
	if end < headerSize {
		r.Fail("%d bytes are too few", len(record))
		return r
	}
	switch n := binary.LittleEndian.Uint32(record[8:]); {
	case binary.LittleEndian.Uint32(record) != magic:
		r.Fail("magic %#x", record[:4])
	case n > MaxBody || headerSize+int(n) != end:
		r.Fail("a body of %d in a record of %d bytes", n, len(record))
	case crc32.ChecksumIEEE(record[:end]) != binary.LittleEndian.Uint32(record[end:]):
		r.Fail("the checksum differs")
	case record[4] != kind:
		r.err = fmt.Errorf("%w: kind %d, want %d", ErrKind, record[4], kind)
	case record[5] != version:
		r.err = fmt.Errorf("%w: %d, this build reads %d: use the same goccl at both ends", ErrVersion, record[5], version)
	default:
		r.b = record[headerSize:end]
	}
	return r
}

// Raw returns the next n bytes, or n zero bytes if they are missing. n must be a constant of the format, never a
// decoded length. They are part of the record.
func (r *Reader) Raw(n int) []byte {
	if r.err != nil || len(r.b) < n {
		if r.err == nil {
			r.err = fmt.Errorf("%w: %d bytes left, want %d", ErrFormat, len(r.b), n)
		}
		return make([]byte, n)
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

// U8 returns the next byte; the others decode little endian.
func (r *Reader) U8() uint8   { return r.Raw(1)[0] }
func (r *Reader) U16() uint16 { return binary.LittleEndian.Uint16(r.Raw(2)) }
func (r *Reader) U32() uint32 { return binary.LittleEndian.Uint32(r.Raw(4)) }
func (r *Reader) U64() uint64 { return binary.LittleEndian.Uint64(r.Raw(8)) }

// Bytes returns a copy of a counted field of at most limit bytes, or nil if it is longer or missing. The field then
// outlives the record, which may be memory of a C program.
func (r *Reader) Bytes(limit int) []byte {
	n := int(r.U16())
	if r.err == nil && (n > limit || n > len(r.b)) {
		r.err = fmt.Errorf("%w: a field of %d bytes, at most %d allowed and %d left", ErrFormat, n, limit, len(r.b))
	}
	if r.err != nil {
		return nil
	}
	return bytes.Clone(r.Raw(n))
}

// Fail records that a decoded value is invalid.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
	}
}

// Done returns nil if every field was present and no bytes are left.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) != 0 {
		r.err = fmt.Errorf("%w: %d bytes left over", ErrFormat, len(r.b))
	}
	return r.err
}
