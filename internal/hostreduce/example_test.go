package hostreduce_test

import (
	"fmt"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/test/testutil"
)

func ExampleReduce() {
	a, b := []byte{1, 2, 250}, []byte{10, 20, 30}
	sum := make([]byte, 3)
	if err := hostreduce.Reduce(sum, [][]byte{a, b}, datatype.Uint8, datatype.Sum, [8]byte{}, 2); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sum)
	// Output: [11 22 24]
}

func ExampleCheck() {
	const ranks, count = 4, 1000
	want := make([]byte, count*4)
	if err := testutil.Expected(want, datatype.Float32, datatype.Sum, 7, ranks); err != nil {
		fmt.Println(err)
	}
	got := append([]byte(nil), want...)
	got[4*123+2] ^= 0x80
	fmt.Println(hostreduce.Check(got, want, datatype.Float32, datatype.Sum, ranks))
	// Output: 1 123
}
