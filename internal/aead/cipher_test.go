package aead

import (
	"bytes"
	"errors"
	"testing"
)

var secret = bytes.Repeat([]byte{7}, 32)

func pair(transcript string) (seal, open *Cipher) {
	return New(secret, []byte(transcript), "there"), New(secret, []byte(transcript), "there")
}

func TestOnlyTheNextRecordOpens(t *testing.T) {
	s, _ := pair("a")
	plain, extra := []byte("a record"), []byte("in clear")
	sealed := s.Seal(nil, 3, plain, extra)
	if len(sealed) != len(plain)+Overhead || bytes.Contains(sealed, plain) {
		t.Fatalf("%q", sealed)
	}
	open := func(c *Cipher, n uint64, sealed, extra []byte) error {
		got, err := c.Open(n, bytes.Clone(sealed), extra)
		if err == nil && !bytes.Equal(got, plain) {
			t.Fatalf("%q", got)
		}
		return err
	}
	_, o := pair("a")
	if err := open(o, 3, sealed, extra); err != nil {
		t.Fatal(err)
	}
	_, elsewhere := pair("b")
	for name, err := range map[string]error{
		"repeated":           open(o, 4, sealed, extra),
		"early":              open(o, 2, sealed, extra),
		"other connection":   open(elsewhere, 3, sealed, extra),
		"reflected":          open(New(secret, []byte("a"), "back"), 3, sealed, extra),
		"other secret":       open(New(secret[1:], []byte("a"), "there"), 3, sealed, extra),
		"other extra":        open(o, 3, sealed, []byte("in Clear")),
		"short":              open(o, 3, sealed[:len(sealed)-1], extra),
		"shorter than a tag": open(o, 3, sealed[:3], extra),
	} {
		if !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range sealed {
		bent := bytes.Clone(sealed)
		bent[i] ^= 4
		if err := open(o, 3, bent, extra); !errors.Is(err, ErrForged) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
}

// Both sides switch to the next key at the same record, and a record sealed under one key does not open under another.
func TestKeysFollowEachOther(t *testing.T) {
	s, o := pair("a")
	const last = 1<<keyRecords - 1
	sealed := map[uint64][]byte{}
	for _, n := range []uint64{0, last, last + 1, 3 << keyRecords} {
		sealed[n] = s.Seal(nil, n, []byte("x"), nil)
		if _, err := o.Open(n, bytes.Clone(sealed[n]), nil); err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
	}
	_, late := pair("a")
	late.at(last + 1)
	late.nonce = [12]byte{}
	if _, err := late.aead.Open(nil, late.nonce[:], sealed[0], nil); err == nil {
		t.Fatal("one key serves two epochs")
	}
}
