package fused

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/kernels"
)

// The size of the kernels' parameters is the size that a launch passes.
func TestParameterSize(t *testing.T) {
	image, err := kernels.Image("fused", 99, 0) // text
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Appendf(nil, "_param_0[%d]", unsafe.Sizeof(kernelArgs{}))
	for _, name := range kernels.Names("fused") {
		if !bytes.Contains(image, append([]byte(name), want...)) {
			t.Errorf("%s has another number of bytes of parameters than %s", name, want)
		}
	}
}
