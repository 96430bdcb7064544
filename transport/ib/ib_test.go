package ib

import (
	"errors"
	"testing"
)

func TestOpenSaysThatItIsNotBuiltIn(t *testing.T) {
	l, err := Open(3)
	if l != nil || !errors.Is(err, ErrNotBuiltIn) {
		t.Fatalf("%v, %v", l, err)
	}
}
