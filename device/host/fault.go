package host

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// PanicError is the error of a kernel that panicked, or that accessed unmapped memory.
type PanicError struct {
	Value any
	Stack []byte
}

// Error includes the panic's value and, for a fault, the address if the runtime knows it; the stack is in the field.
func (e *PanicError) Error() string {
	a, ok := e.Addr()
	err, isRuntime := e.Value.(runtime.Error)
	switch {
	case ok && a == 0:
		return fmt.Sprintf("panic: %v: at an address that no memory can have", e.Value)
	case !ok && isRuntime && strings.Contains(err.Error(), "invalid memory address"):
		return fmt.Sprintf("panic: %v: at an address below 0x1000", e.Value)
	case ok:
		return fmt.Sprintf("panic: %v: at %#x no memory is mapped, or it is read-only: is a buffer shorter than its count "+
			"says, or freed?", e.Value, a)
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// Addr returns the address of a memory fault. ok is false for other panics.
func (e *PanicError) Addr() (addr uintptr, ok bool) {
	f, ok := e.Value.(interface{ Addr() uintptr })
	if !ok {
		return 0, false
	}
	return f.Addr(), true
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guard runs f as guardKernel does a kernel. Its errors have the prefix what.
func guard(what string, f func()) error {
	if err := guardKernel(func(*Block) error { f(); return nil }, nil); err != nil {
		return fmt.Errorf("host: %s: %w", what, err)
	}
	return nil
}

// guardKernel runs k on this goroutine and turns panics and memory faults into errors; the caller adds its name.
func guardKernel(k func(*Block) error, b *Block) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return k(b)
}
