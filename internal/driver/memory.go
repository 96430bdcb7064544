package driver

// Ptr is a CUdeviceptr.
type Ptr = uintptr

// MemInfo returns the free and the total memory of the context's device, in bytes.
//
//cu:call (c Context) MemInfo() (free, total int64) = cuMemGetInfo_v2(free, total)

// MemAlloc is cuMemAlloc, which cudaMalloc uses. The contents are undefined.
//
//cu:call (c Context) MemAlloc(size int64) (p Ptr) = cuMemAlloc_v2(p, size)

// MemFree frees memory of MemAlloc; it waits for work that uses it.
//
//cu:call (c Context) MemFree(p Ptr) = gone cuMemFree_v2(p)

// MemoryType is the kind of memory that a pointer points to.
type MemoryType uint8

// The memory types; 0 is memory unknown to the driver.
const (
	HostMemory MemoryType = 1
	GPUMemory  MemoryType = 2
)

// PointerInfo holds the driver's attributes of a pointer.
type PointerInfo struct {
	Type    MemoryType
	Ordinal int
	// LegacyIPC means that cuIpcGetMemHandle works.
	LegacyIPC bool
	// BufferID distinguishes the allocations of this process, even if an address is reused.
	BufferID uint64
	// Pool is nonzero for memory of a stream-ordered pool (cudaMallocAsync).
	Pool uint64
	// HandleTypes is the mask of handle types by which the allocation can be exported; bit 0 is a file descriptor.
	HandleTypes     uint32
	Managed, Mapped bool
}

// PointerInfo queries the driver about p. An unknown pointer is not an error: its Type is 0.
//
//cu:call PointerInfo = pointer_info(a)
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

// AddressRange returns the base and the size of the allocation (or VMM mapping) that holds p.
//
//cu:call (c Context) AddressRange(p Ptr) (base Ptr, size int64) = cuMemGetAddressRange_v2(base, size, p)

// HostPortable and the other flags are flags of cuMemHostAlloc and cuMemHostRegister.
const (
	HostPortable  = 1
	HostDeviceMap = 2
)

// HostAlloc returns page-locked host memory and its device address.
//
//cu:call (c Context) HostAlloc(size int64, flags uint32) (host, dev Ptr) = host_alloc(a)

// HostFree frees memory of HostAlloc.
//
//cu:call (c Context) HostFree(host Ptr) = gone cuMemFreeHost(host)

// HostRegister page-locks size bytes at host (not on the Go heap) and maps them for the device.
//
//cu:call (c Context) HostRegister(host Ptr, size int64, flags uint32) (dev Ptr) = host_register(a)

// HostUnregister reverses HostRegister.
//
//cu:call (c Context) HostUnregister(host Ptr) = gone cuMemHostUnregister(host)

// CopyIn copies Go memory to the device on stream s and waits for it.
//
//cu:call CopyIn = copy_in(a, p)
func (c Context) CopyIn(dst Ptr, src []byte, s Stream) error {
	if len(src) == 0 {
		return nil
	}
	a := args{uint64(dst), uint64(len(src)), uint64(s)}
	return call(opCopyIn, c, &a, &src[0], nil)
}

// CopyOut copies device memory to Go memory on stream s and waits for it.
//
//cu:call CopyOut = copy_out(a, p)
func (c Context) CopyOut(dst []byte, src Ptr, s Stream) error {
	if len(dst) == 0 {
		return nil
	}
	a := args{uint64(src), uint64(len(dst)), uint64(s)}
	return call(opCopyOut, c, &a, &dst[0], nil)
}
