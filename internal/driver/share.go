package driver

// VMM is a physical allocation made by the virtual memory functions, and its mapping.
type VMM struct {
	Ptr    Ptr
	Size   int64
	handle uint64
	placed bool // in a reservation
}

// VMMAlloc makes exportable, zeroed memory on device ordinal, which the devices in mask can read and write. It has at
// least size bytes, in multiples of the granularity (2 MiB on today's GPUs). VMMAlloc waits on s for the zeroing. rdma
// requests NIC access to the memory.
func (c Context) VMMAlloc(ordinal int, size int64, mask uint64, s Stream, rdma bool) (VMM, error) {
	a := args{uint64(ordinal), uint64(size), uint64(s), mask, b2u(rdma)}
	if err := call(opVMMAlloc, c, &a, nil, nil); err != nil {
		return VMM{}, err
	}
	return VMM{Ptr: Ptr(a[0]), Size: int64(a[1]), handle: a[2]}, nil
}

// VMMExport returns a new file descriptor for the VMM allocation that holds p; the caller closes it.
func (c Context) VMMExport(p Ptr) (fd int, err error) {
	a := args{uint64(p)}
	if err := call(opVMMExport, c, &a, nil, nil); err != nil {
		return -1, err
	}
	return int(int32(a[0])), nil
}

// VMMImport maps the allocation behind fd for the devices in mask, at an address inside a reservation. The caller keeps
// fd.
func (c Context) VMMImport(fd int, size int64, mask uint64, at Ptr) (VMM, error) {
	h, err := get[uint64](c, opVMMImport, args{uint64(fd), uint64(size), mask, uint64(at)})
	return VMM{Ptr: at, Size: size, handle: h, placed: true}, err
}

// VMMAccess gives the devices in mask access to the mapping.
func (c Context) VMMAccess(m VMM, mask uint64) error {
	return c.run(opVMMAccess, args{uint64(m.Ptr), uint64(m.Size), mask})
}

// VMMFree unmaps and releases the memory. It does not wait: work that uses the memory must be done.
func (c Context) VMMFree(m VMM) error {
	return gone(c.run(opVMMFree, args{uint64(m.Ptr), uint64(m.Size), m.handle, b2u(m.placed)}))
}

// VMMReserve reserves size bytes of addresses that are aligned to align, both multiples of the granularity. Nothing is
// mapped there yet: see VMMImport.
func (c Context) VMMReserve(size, align int64) (Ptr, error) {
	return get[Ptr](c, opVMMReserve, args{uint64(size), uint64(align)})
}

// VMMUnreserve reverses VMMReserve. Nothing may be mapped there.
func (c Context) VMMUnreserve(p Ptr, size int64) error {
	return gone(c.run(opVMMUnreserve, args{uint64(p), uint64(size)}))
}

// DMABuf returns a new DMA-BUF descriptor of size bytes at p, multiples of the host's page size; the caller closes it.
func (c Context) DMABuf(p Ptr, size int64) (fd int, err error) {
	a := args{uint64(p), uint64(size)}
	if err := call(opDMABuf, c, &a, nil, nil); err != nil {
		return -1, err
	}
	return int(int32(a[0])), nil
}

// IPCGet returns the legacy IPC handle of the allocation with base p.
func (c Context) IPCGet(base Ptr) (h [64]byte, err error) {
	a := args{uint64(base)}
	err = call(opIPCGet, c, &a, &h[0], nil)
	return h, err
}

// IPCOpen maps an allocation of another process. A process may open a handle once per context.
func (c Context) IPCOpen(h [64]byte) (Ptr, error) {
	var a args
	err := call(opIPCOpen, c, &a, &h[0], nil)
	return Ptr(a[0]), err
}

// IPCClose reverses IPCOpen.
func (c Context) IPCClose(p Ptr) error { return gone(c.run(opIPCClose, args{uint64(p)})) }

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
