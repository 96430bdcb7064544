package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/goccl/goccl/test/mutate"
)

func record() []byte {
	var w Writer
	w.U8(1)
	w.U16(2)
	w.U32(3)
	w.U64(4)
	w.Bytes([]byte("five"))
	return w.Seal(7, 1)
}

func read(r *Reader) (sum uint64, s []byte) {
	sum = uint64(r.U8()) + uint64(r.U16()) + uint64(r.U32()) + r.U64()
	return sum, r.Bytes(4)
}

// decode reads a whole record.
func decode(rec []byte, kind, version uint8) error {
	r := Open(rec, kind, version)
	_, _ = read(r)
	return r.Done()
}

func TestRoundTrip(t *testing.T) {
	r := Open(record(), 7, 1)
	sum, s := read(r)
	if err := r.Done(); err != nil || sum != 10 || !bytes.Equal(s, []byte("five")) {
		t.Fatalf("%d %q %v", sum, s, err)
	}
}

// The caller of Open may overwrite the record when it has been decoded: a program in C or Python frees it.
func TestBytesOutliveTheRecord(t *testing.T) {
	rec := record()
	r := Open(rec, 7, 1)
	_, s := read(r)
	clear(rec)
	if err := r.Done(); err != nil || string(s) != "five" {
		t.Fatalf("%q %v", s, err)
	}
}

func TestEveryFlippedBitAndEveryCutIsRefused(t *testing.T) {
	good := record()
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if err := decode(bad, 7, 1); err == nil {
				t.Fatalf("byte %d bit %d: accepted", i, bit)
			}
		}
		if err := decode(good[:i], 7, 1); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if err := decode(good, 8, 1); !errors.Is(err, ErrKind) {
		t.Fatal(err)
	}
	if err := decode(good, 7, 2); !errors.Is(err, ErrVersion) {
		t.Fatal(err)
	}
}

// A body with a correct checksum and invalid fields must fail in Done, without a large allocation.
func FuzzReader(f *testing.F) {
	f.Add([]byte{1, 2, 0, 3, 0, 0, 0})
	f.Add(record()[headerSize:])
	mutate.Fuzz(f, func(t *testing.T, body []byte) {
		w := Writer{b: body}
		if len(body) > MaxBody {
			return
		}
		rec := w.Seal(7, 1)
		r := Open(rec, 7, 1)
		_, s := read(r)
		if r.Done() == nil && len(body) != 15+2+len(s) {
			t.Fatalf("%d bytes passed as %d", len(body), 17+len(s))
		}
		if len(s) > 4 {
			t.Fatal("limit not kept")
		}
	})
}

func TestHugeLengthIsRefused(t *testing.T) {
	rec := record()
	binary.LittleEndian.PutUint32(rec[8:], 1<<31)
	binary.LittleEndian.PutUint32(rec[len(rec)-4:], crc32.ChecksumIEEE(rec[:len(rec)-4]))
	if err := decode(rec, 7, 1); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
}
