package cuda_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goccl/goccl/device/cuda"
)

// Fill memory of the first GPU and read it back.
func Example() {
	if err := cuda.Available(); err != nil {
		fmt.Println("no GPU:", err)
		return
	}
	d, err := cuda.Open(0)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	mem, err := d.Alloc(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	s, err := d.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Memset(mem.Ptr(), 42, mem.Size()); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Synchronize(ctx); err != nil {
		log.Fatal(err)
	}
	host := make([]byte, 4)
	if err := d.CopyOut(host, mem.Ptr()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host)
}
