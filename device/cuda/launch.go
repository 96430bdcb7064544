package cuda

import (
	"encoding/binary"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// LaunchOverlapPrevious lets a kernel start before the previous one of its stream has ended.
const LaunchOverlapPrevious = driver.LaunchOverlapPrevious

// Config is the shape of a launch: blocks, threads per block, blocks per cluster (zero: none), bytes of dynamic shared
// memory.
type Config = driver.LaunchConfig

// Launch1D is a one-dimensional shape.
func Launch1D(blocks, threads int, shared uint32) Config {
	return Config{Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{uint32(threads), 1, 1}, Shared: shared}
}

// Args packs kernel parameters in the order in which the kernel declares them, each at its natural alignment. Reset it
// to use it again without an allocation. The zero Args is ready.
type Args struct {
	buf []byte
}

// Reset removes the parameters and keeps the memory.
func (a *Args) Reset() *Args {
	a.buf = a.buf[:0]
	return a
}

// Align pads to a multiple of n, a power of two.
func (a *Args) Align(n int) *Args {
	for len(a.buf)&(n-1) != 0 {
		a.buf = append(a.buf, 0)
	}
	return a
}

// Ptr adds a pointer.
func (a *Args) Ptr(p device.Ptr) *Args { return a.Uint64(uint64(p)) }

// Uint64 adds 8 bytes.
func (a *Args) Uint64(v uint64) *Args {
	a.Align(8)
	a.buf = binary.LittleEndian.AppendUint64(a.buf, v)
	return a
}

// Uint32 adds 4 bytes.
func (a *Args) Uint32(v uint32) *Args {
	a.Align(4)
	a.buf = binary.LittleEndian.AppendUint32(a.buf, v)
	return a
}

// Int32 adds 4 bytes.
func (a *Args) Int32(v int32) *Args { return a.Uint32(uint32(v)) }

// Bytes returns the parameter buffer, valid until the next change.
func (a *Args) Bytes() []byte { return a.buf }

// Launch enqueues f. It allocates nothing; args may be changed when it returns.
func (s *Stream) Launch(f *Function, cfg Config, args *Args) error {
	var raw []byte
	if args != nil {
		raw = args.buf
	}
	return s.LaunchRaw(f, &cfg, raw)
}

// LaunchRaw is Launch with a packed parameter buffer.
func (s *Stream) LaunchRaw(f *Function, cfg *Config, params []byte) error {
	if err := s.check(); err != nil {
		return err
	}
	if f.d.gpu != s.d.gpu {
		return failKind(s.d.gpu.ordinal, "launch "+f.name, device.ErrUnsupported, "the kernel is loaded on %s", f.d.ID())
	}
	s.d.use.launched(cfg)
	if err := s.d.gpu.ctx.Launch(f.raw, cfg, s.raw, params); err != nil {
		return fail(s.d.gpu.ordinal, "launch "+f.name, err)
	}
	return nil
}
