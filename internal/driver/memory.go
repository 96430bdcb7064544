package driver

// Ptr is a CUdeviceptr.
type Ptr = uintptr

// MemInfo is the free and the total memory of the context's device, in bytes.
func (c Context) MemInfo() (free, total int64, err error) {
	var a args
	err = call(opMemInfo, c, &a, nil, nil)
	return int64(a[0]), int64(a[1]), err
}

// MemAlloc is cuMemAlloc: what cudaMalloc does. The contents are undefined.
func (c Context) MemAlloc(size int64) (Ptr, error) {
	a := args{uint64(size)}
	err := call(opMemAlloc, c, &a, nil, nil)
	return Ptr(a[0]), err
}

// MemFree frees what MemAlloc made; it waits for work that uses it.
func (c Context) MemFree(p Ptr) error {
	a := args{uint64(p)}
	return gone(call(opMemFree, c, &a, nil, nil))
}

// MemoryType tells where a pointer points.
type MemoryType uint8

// The memory types; 0 is memory that the driver does not know.
const (
	HostMemory MemoryType = 1
	GPUMemory  MemoryType = 2
)

// PointerInfo is what the driver knows of a pointer.
type PointerInfo struct {
	Type    MemoryType
	Ordinal int
	// LegacyIPC: cuIpcGetMemHandle works.
	LegacyIPC bool
	// BufferID tells allocations of this process apart, also when an address is used again.
	BufferID uint64
	// Pool is set for memory of a stream-ordered pool (cudaMallocAsync).
	Pool uint64
	// HandleTypes is the mask of handle types that the allocation can be exported as; bit 0 is a file descriptor.
	HandleTypes     uint32
	Managed, Mapped bool
}

// PointerInfo asks the driver about p. An unknown pointer is no error: its Type is 0.
func (c Context) PointerInfo(p Ptr) (PointerInfo, error) {
	a := args{uint64(p)}
	if err := call(opPointerInfo, c, &a, nil, nil); err != nil {
		if IsCode(err, InvalidValue) {
			return PointerInfo{}, nil
		}
		return PointerInfo{}, err
	}
	return PointerInfo{Type: MemoryType(a[0]), Ordinal: int(int64(a[1])), LegacyIPC: a[2] != 0, BufferID: a[3], Pool: a[4],
		HandleTypes: uint32(a[5]), Managed: a[6] != 0, Mapped: a[7] != 0}, nil
}

// AddressRange is the base and the size of the allocation (or VMM mapping) that holds p.
func (c Context) AddressRange(p Ptr) (base Ptr, size int64, err error) {
	a := args{uint64(p)}
	err = call(opAddressRange, c, &a, nil, nil)
	return Ptr(a[0]), int64(a[1]), err
}

// HostPortable and the other flags are those of cuMemHostAlloc and cuMemHostRegister.
const (
	HostPortable      = 1
	HostDeviceMap     = 2
	HostWriteCombined = 4
)

// HostAlloc is page-locked host memory and its address for the device.
func (c Context) HostAlloc(size int64, flags uint32) (host, dev Ptr, err error) {
	a := args{uint64(size), uint64(flags)}
	err = call(opHostAlloc, c, &a, nil, nil)
	return Ptr(a[0]), Ptr(a[1]), err
}

// HostFree frees what HostAlloc made.
func (c Context) HostFree(host Ptr) error {
	a := args{uint64(host)}
	return gone(call(opHostFree, c, &a, nil, nil))
}

// HostRegister page-locks size bytes at host (not Go heap) and maps them for the device.
func (c Context) HostRegister(host Ptr, size int64, flags uint32) (dev Ptr, err error) {
	a := args{uint64(host), uint64(size), uint64(flags)}
	err = call(opHostRegister, c, &a, nil, nil)
	return Ptr(a[0]), err
}

// HostUnregister undoes HostRegister.
func (c Context) HostUnregister(host Ptr) error {
	a := args{uint64(host)}
	return gone(call(opHostUnregister, c, &a, nil, nil))
}

// CopyIn copies Go memory to the device on stream s and waits for it.
func (c Context) CopyIn(dst Ptr, src []byte, s Stream) error {
	if len(src) == 0 {
		return nil
	}
	a := args{uint64(dst), uint64(len(src)), uint64(s)}
	return call(opCopyIn, c, &a, &src[0], nil)
}

// CopyOut copies device memory to Go memory on stream s and waits for it.
func (c Context) CopyOut(dst []byte, src Ptr, s Stream) error {
	if len(dst) == 0 {
		return nil
	}
	a := args{uint64(src), uint64(len(dst)), uint64(s)}
	return call(opCopyOut, c, &a, &dst[0], nil)
}
