package host_test

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

func Example() {
	d, err := host.Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = d.Close() }()
	mem, err := d.Alloc(1 << 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := d.NewStream()
	if err != nil {
		fmt.Println(err)
		return
	}
	// Four "thread blocks" number a quarter each; then block 0 looks at what the last one wrote.
	err = s.(*host.Stream).Launch("number", 4, func(b *host.Block) error {
		part := mem.Size() / int64(b.Count)
		for i := range device.Bytes(mem.Ptr().Add(int64(b.Index)*part), part) {
			device.Bytes(mem.Ptr().Add(int64(b.Index)*part), part)[i] = byte(b.Index)
		}
		if err := b.Barrier(); err != nil {
			return err
		}
		if b.Index == 0 {
			fmt.Println("last byte:", device.Bytes(mem.Ptr(), mem.Size())[mem.Size()-1])
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println("done:", s.Synchronize(context.Background()))
	// Output:
	// last byte: 3
	// done: <nil>
}
