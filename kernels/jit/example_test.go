package jit_test

import (
	"fmt"
	"log"

	"github.com/goccl/goccl/kernels/jit"
)

// A user's kernel is compiled against the embedded headers, for the device it will run on.
func ExampleCompiler_Compile() {
	c, err := jit.New("/usr/lib/python3/site-packages")
	if err != nil {
		log.Fatal(err)
	}
	image, err := c.Compile(jit.Request{
		Name:  "hello.cu",
		Major: 9,
		Source: `
#include <goccl/memory_channel.cuh>
extern "C" __global__ void hello(goccl::BaseMemoryChannelHandle* channel) {
  if (threadIdx.x == 0) channel->signal();
}`,
	})
	if err != nil {
		log.Fatalf("%+v", err) // with the compiler's log
	}
	fmt.Println(len(image.Data) > 0)
}
