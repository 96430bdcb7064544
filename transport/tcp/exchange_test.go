package tcp

import (
	"bytes"
	"errors"
	"testing"
)

func TestExchange(t *testing.T) {
	a, b := node(t, Options{}), node(t, Options{})
	cred := b.NewExchange(func(request []byte, from uint64) ([]byte, error) {
		if from != 5 {
			return nil, errors.New("another asker")
		}
		return bytes.ToUpper(request), nil
	})
	long := bytes.Repeat([]byte("x"), 5000)
	for range 3 {
		got, err := a.Exchange(t.Context(), b.Addr(), cred, 5, long)
		if err != nil || !bytes.Equal(got, bytes.ToUpper(long)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if _, err := a.Exchange(t.Context(), b.Addr(), cred, 6, long); err == nil {
		t.Error("an error is a reply")
	}
	wrong := cred
	wrong.Secret[0]++
	if _, err := a.Exchange(t.Context(), b.Addr(), wrong, 5, long); !errors.Is(err, ErrAuth) {
		t.Error(err)
	}
}
