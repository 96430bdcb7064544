package driver

//go:generate sh -c "sh op_list.sh > op_list.go"

// op is an operation of goccl_driver_call: op_list.go has them in the order of op.h.
type op uint32

// args holds an operation's integer arguments, then its results.
type args [9]uint64

// number is what an operation returns in a word.
type number interface {
	~int | ~int64 | ~uint64 | ~uintptr
}

// run calls an operation without bytes and results.
func (c Context) run(o op, a args) error { return call(o, c, &a, nil, nil) }

// get calls an operation without bytes and returns its first result, get2 its first two.
func get[T number](c Context, o op, a args) (T, error) {
	err := call(o, c, &a, nil, nil)
	return T(a[0]), err
}

func get2[T, U number](c Context, o op, a args) (T, U, error) {
	err := call(o, c, &a, nil, nil)
	return T(a[0]), U(a[1]), err
}
