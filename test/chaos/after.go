package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// afterwards is the number of operations on a communicator after the fault. Every element of each result is compared.
const afterwards = 40

var (
	kindsAfter = []collective.Collective{collective.AllReduce, collective.AllGather, collective.ReduceScatter,
		collective.Broadcast, collective.AllToAll}
	countsAfter = []int64{1, 257, 4099, 1000, 1<<16 + 3, 7, 1 << 18}
)

// prove runs many operations on c, compares all their data, and looks for memory that communicators leave.
func (r *rank) prove(c *goccl.Comm) (err error) {
	r.until = time.Now().Add(r.patience())
	u, err := newSums(c, slices.Max(countsAfter)*int64(c.WorldSize()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	for i := range afterwards {
		q := collective.Request{Collective: kindsAfter[i%len(kindsAfter)], Count: countsAfter[i%len(countsAfter)],
			Type: datatype.Int32, Op: datatype.Sum, Root: i % c.WorldSize()}
		if err := u.check(q, i); err != nil {
			return fmt.Errorf("operation %d after the fault: %w", i+1, err)
		}
	}
	if r.Phase == "grow" { // a rank may have left out Grow: the parent is good for collectives alone
		return nil
	}
	return r.cycles(c, u)
}

// element is what rank r sends to rank to as element i of an operation. Sums of 30 ranks are exact.
func element(r, to, round int, i int64) int32 {
	x := uint64(i)*0x9e3779b97f4a7c15 + uint64(round*1000003+r*7919+to*104729)
	return int32(x>>40) & 0xffff
}

// check runs an operation and compares every element of its result.
func (u *sums) check(q collective.Request, round int) error {
	n, me := int64(u.c.WorldSize()), u.c.Rank()
	sent, got := q.Count, q.Count
	switch q.Collective {
	case collective.AllGather:
		got *= n
	case collective.ReduceScatter:
		sent *= n
	case collective.AllToAll:
		sent, got = sent*n, got*n
	}
	toEach := q.Collective == collective.ReduceScatter || q.Collective == collective.AllToAll
	for i := range sent {
		if u.buffer[i] = element(me, 0, round, i); toEach {
			u.buffer[i] = element(me, int(i/q.Count), round, i%q.Count)
		}
	}
	q.Send, q.Recv, q.Stream = u.mem.Ptr(), u.mem.Ptr().Add(4*int64(len(u.buffer))), u.stream
	if err := u.run(q, sent, got); err != nil {
		return err
	}
	for i, v := range u.buffer[:got] {
		from, at := int(int64(i)/q.Count), int64(i)%q.Count
		want := int32(0)
		switch q.Collective {
		case collective.AllGather:
			want = element(from, 0, round, at)
		case collective.AllToAll:
			want = element(from, me, round, at)
		case collective.Broadcast:
			want = element(q.Root, 0, round, at)
		default:
			to := 0
			if toEach {
				to = me
			}
			for r := range int(n) {
				want += element(r, to, round, at)
			}
		}
		if v != want {
			return fmt.Errorf("%w: element %d of %v of %d elements is %d, want %d", errWrong, i, q.Collective, q.Count, v, want)
		}
	}
	return nil
}

// run sends the first elements of the buffer and fills it with the result.
func (u *sums) run(q collective.Request, sent, got int64) error {
	words := func(n int64) []byte {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(u.buffer))), 4*n)
	}
	if err := u.c.Device().CopyIn(q.Send, words(sent)); err != nil {
		return err
	}
	if err := u.c.Submit(q); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	if err := u.c.Synchronize(ctx, u.stream); err != nil {
		return err
	}
	return u.c.Device().CopyOut(words(got), q.Recv)
}
