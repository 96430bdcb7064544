package core

import (
	"encoding/binary"
	"testing"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/mutate"
)

// FuzzCalls makes calls of the ABI with handles, numbers and requests from the input, on one rank, where no call waits
// for another. Every call must return without a panic, an internal error or an access to other memory, and the rank
// must work afterwards.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 7, 0, 0, 0, 16})
	f.Add([]byte{1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0})
	f.Add([]byte("\x00\x00\x0c\xff\xff\xff\xff\xff\xff\xff\xff\x02\x01\x03\x00\x05\x00\x06\x01"))
	var alone loner
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		byteOf := func() (b byte) {
			if len(in) > 0 {
				b, in = in[0], in[1:]
			}
			return b
		}
		word := func() uint64 {
			var b [8]byte
			in = in[copy(b[:], in):]
			return binary.LittleEndian.Uint64(b[:])
		}
		const room = 64 // elements of a buffer, of eight bytes each
		alone.begin(t, 4*room)
		c, d, memory := alone.comm, alone.device, alone.memory
		var made []Handle
		defer func() {
			for _, h := range made {
				_ = CommAbort(h)
			}
		}()
		handles := []Handle{c, d, 0, c + 1, c ^ 1<<20, d + 1<<16}
		handle := func() Handle {
			if b := byteOf(); int(b) < 2*len(handles) {
				return handles[int(b)/2]
			}
			return Handle(word())
		}
		answer := func(what string, err error) {
			if ResultOf(err) == InternalError {
				t.Errorf("%s: %v", what, err)
			}
		}
		request := func() Request {
			q := Request{Comm: handle(), Collective: uint32(byteOf()), Type: uint32(byteOf()), Op: uint32(byteOf()),
				Root: int32(int8(byteOf())), Count: uint64(byteOf()) % (room / 8)}
			q.Send, q.Recv = memory, memory+uintptr(8*room)
			switch byteOf() % 8 {
			case 0:
				q.Count = max(word(), 1<<62+1) // a smaller count could exceed the buffers, whose size only the caller knows
			case 1:
				q.Send = 0
			case 2:
				q.Op = 0x10000 * uint32(byteOf())
			case 3:
				q.Stream = uintptr(0x7000 + uint64(byteOf()))
			}
			if q.Collective == 5 || q.Collective == 13 { // the same applies to the sizes of its arrays
				q.SendCounts = nil
			}
			return q
		}
		for len(in) > 0 {
			switch byteOf() % 14 {
			case 0:
				answer("submit", Submit([]Request{request()}))
			case 1:
				n := int(byteOf() % 5)
				reqs := make([]Request, n)
				for i := range reqs {
					reqs[i] = request()
				}
				answer("group", Submit(reqs))
			case 2:
				q := request()
				answer("check", Check(&q))
			case 3:
				_, err := CommInfoGet(handle())
				answer("info", err)
			case 4:
				answer("error", CommError(handle()))
			case 5:
				v := [8]byte{1}
				op, err := OpCreate(handle(), uint32(byteOf()), unsafe.Pointer(&v), true)
				answer("op", err)
				if err == nil && byteOf()%2 == 0 {
					answer("op's end", OpDestroy(handle(), op))
				}
			case 6:
				answer("op's end", OpDestroy(handle(), uint32(word())))
			case 7:
				answer("free", Free(uintptr(word()|1)))
			case 8:
				n := word()
				if n < 1<<48 { // a machine with much memory would clear it for minutes
					n %= 1 << 24
				}
				d, err := Find[*Device](handle())
				answer("device", err)
				if err != nil {
					break
				}
				p, err := Alloc(d, n)
				answer("alloc", err)
				if err == nil {
					answer("free", Free(p))
				}
			case 9:
				var id bootstrap.UniqueID
				copy(id[:], in)
				rank, size := int(int8(byteOf())), int(int8(byteOf()))
				d, err := Find[*Device](handle())
				if err == nil {
					_, err = CommStart(id, rank, size, d, Config{})
				}
				answer("start", err)
			case 10:
				o, err := Find[Open](handle())
				color, key, h := int(int8(byteOf()))%3, int(byteOf()), Handle(0)
				if err == nil {
					h, err = CommSplitStart(o, color, key, nil)
				}
				answer("split", err)
				if err == nil && h != 0 {
					answer("wait", CommWait(h))
					handles, made = append(handles, h), append(made, h)
				}
			case 11:
				r, err := Find[Ready](handle())
				if exclude, abort := []int32{int32(int8(byteOf()))}, byteOf()%2 == 0; err == nil {
					_, err = CommShrinkStart(r, exclude, abort, nil)
				}
				answer("shrink", err)
			case 12:
				if h := handle(); h != c {
					answer("destroy", CommDestroy(h))
				}
			case 13:
				if h := handle(); h != c {
					o, err := Find[Open](h)
					if err == nil {
						err = CommFinalize(o)
					}
					answer("finalize", err)
				}
			}
		}
		opened, err := Find[*Device](d)
		answer("device", err)
		answer("wait", StreamSynchronize(within(t, time.Minute), opened, 0))
		if err := CommError(c); err != nil {
			alone.inputs = mostInputs // a request was accepted that this rank alone cannot complete
			return
		}
		if err := Submit([]Request{allReduce(c, memory, memory, 1)}); err != nil {
			t.Errorf("the rank does not work any more: %v", err)
		}
	})
}

// loner is the rank that FuzzCalls calls. In a loop it serves many inputs, because a communicator costs a hundred times
// as much as what an input does with it; under the fuzzer each input has its own, so that a failure is that input's.
type loner struct {
	comm, device Handle
	memory       uintptr
	inputs       int
}

const mostInputs = 1000

func (l *loner) begin(t *testing.T, elements int) {
	if l.inputs++; l.comm != 0 && l.inputs < mostInputs && mutate.Loops() {
		return
	}
	if l.inputs = 0; l.comm != 0 {
		_ = CommAbort(l.comm)
		_ = Free(l.memory)
	}
	var err error
	if l.device, err = openDevice(device.Host, 0); err != nil {
		t.Fatal(err)
	}
	all, err := startAll([]Handle{l.device}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if l.comm = all[0]; CommWait(l.comm) != nil {
		t.Fatal(CommError(l.comm))
	}
	d, err := Find[*Device](l.device)
	if err != nil {
		t.Fatal(err)
	}
	if l.memory, err = Alloc(d, uint64(4*elements)); err != nil {
		t.Fatal(err)
	}
}
