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
func (c Context) VMMAlloc(ordinal int, size int64, mask uint64, s Stream, rdma bool) (m VMM, err error) {
	m.Ptr, m.Size, m.handle, err = c.vmmAlloc(int64(ordinal), size, s, mask, rdma)
	return m, err
}

//cu:call (c Context) vmmAlloc(gpu, n int64, s Stream, mask uint64, rdma bool) (p Ptr, m int64, h uint64) = vmm_alloc(a)

// VMMExport returns a new file descriptor for the VMM allocation that holds p; the caller closes it.
//
//cu:call (c Context) VMMExport(p Ptr) (fd int) = vmm_export(a)

// VMMImport maps the allocation behind fd for the devices in mask, at an address inside a reservation. The caller keeps
// fd.
func (c Context) VMMImport(fd int, size int64, mask uint64, at Ptr) (VMM, error) {
	h, err := c.vmmImport(fd, size, mask, at)
	return VMM{Ptr: at, Size: size, handle: h, placed: true}, err
}

//cu:call (c Context) vmmImport(fd int, size int64, mask uint64, at Ptr) (h uint64) = vmm_import(a)

// VMMAccess gives the devices in mask access to the mapping.
func (c Context) VMMAccess(m VMM, mask uint64) error { return c.vmmAccess(m.Ptr, m.Size, mask) }

//cu:call (c Context) vmmAccess(p Ptr, size int64, mask uint64) = set_access(a[0], a[1], a[2])

// VMMFree unmaps and releases the memory. It does not wait: work that uses the memory must be done.
func (c Context) VMMFree(m VMM) error {
	return c.vmmFree(m.Ptr, m.Size, m.handle, m.placed)
}

//cu:call (c Context) vmmFree(p Ptr, size int64, h uint64, placed bool) = gone vmm_free(a)

// VMMReserve reserves size bytes of addresses that are aligned to align, both multiples of the granularity. Nothing is
// mapped there yet: see VMMImport.
//
//cu:call (c Context) VMMReserve(size, align int64) (p Ptr) = cuMemAddressReserve(p, size, align, 0, 0)

// VMMUnreserve reverses VMMReserve. Nothing may be mapped there.
//
//cu:call (c Context) VMMUnreserve(p Ptr, size int64) = gone cuMemAddressFree(p, size)

// DMABuf returns a new DMA-BUF descriptor of size bytes at p, multiples of the host's page size; the caller closes it.
//
//cu:call (c Context) DMABuf(p Ptr, size int64) (fd int) = dma_buf(a)

// IPCGet returns the legacy IPC handle of the allocation with base p.
//
//cu:call IPCGet = cuIpcGetMemHandle(p, a0)
func (c Context) IPCGet(base Ptr) (h [64]byte, err error) {
	a := args{uint64(base)}
	err = call(opIPCGet, c, &a, &h[0], nil)
	return h, err
}

// IPCOpen maps an allocation of another process. A process may open a handle once per context.
//
//cu:call IPCOpen = ipc_open(a, p)
func (c Context) IPCOpen(h [64]byte) (Ptr, error) {
	var a args
	err := call(opIPCOpen, c, &a, &h[0], nil)
	return Ptr(a[0]), err
}

// IPCClose reverses IPCOpen.
//
//cu:call (c Context) IPCClose(p Ptr) = gone cuIpcCloseMemHandle(p)
