package core

// args finds the objects that a call names by handles. It keeps the first error, so that a function looks at one error
// after all its arguments.
type args struct{ err error }

// arg finds the object of h; it must be a T.
func arg[T any](a *args, h Handle) (v T) {
	if a.err == nil {
		v, a.err = objectOf[T](h)
	}
	return v
}

func (a *args) device(h Handle) (d *dev) {
	if a.err == nil {
		d, a.err = devices.get(h)
	}
	return d
}

func (a *args) bootstrap(h Handle) (b *boot) {
	if a.err == nil {
		b, a.err = bootstraps.get(h)
	}
	return b
}

// do calls f, if all arguments were found.
func (a *args) do(f func() error) error {
	if a.err != nil {
		return a.err
	}
	return f()
}

// tell is do for a function with a result.
func tell[T any](a *args, f func() (T, error)) (v T, err error) {
	if a.err != nil {
		return v, a.err
	}
	return f()
}

// create is tell for a function that makes an object; it returns the object's handle.
func create[T any](a *args, f func() (T, error)) (Handle, error) {
	return addObject(tell(a, f))
}

// with calls f with the object of h.
func with[T any](h Handle, f func(T) error) error {
	v, err := objectOf[T](h)
	if err != nil {
		return err
	}
	return f(v)
}

// from is with for a function that makes an object of another; it returns the handle.
func from[T, V any](h Handle, f func(T) (V, error)) (Handle, error) {
	v, err := objectOf[T](h)
	if err != nil {
		return 0, err
	}
	return addObject(f(v))
}
