//go:build !cgo || !linux

package ncclabi

import "fmt"

type table struct{}

func open(string) (table, error) {
	return table{}, fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux", ErrUnavailable)
}

func (l *Library) call(Function, uintptr, *args, *byte) Result { return noFunction }

// Has is false.
func (l *Library) Has(Function) bool { return false }

func name(Function) string { return "" }

func (l *Library) texts(Result, uintptr) (text, last string) { return "", "" }
