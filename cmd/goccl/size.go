package main

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// size is a number of bytes: 8, 64K, 64M, 1G; KiB, MiB and GiB mean the same as K, M and G, as in nccl-tests.
type size int64

var sizeType = reflect.TypeOf(size(0))

func parseSize(s string) (size, error) {
	digits := strings.TrimRight(s, "KMGTkmgtiBb")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a size: use bytes, with an optional K, M or G", s)
	}
	shift := 0
	switch unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s[len(digits):]), "B"), "I"); unit {
	case "":
	case "K":
		shift = 10
	case "M":
		shift = 20
	case "G":
		shift = 30
	case "T":
		shift = 40
	default:
		return 0, fmt.Errorf("%q is not a size: unknown unit %q", s, unit)
	}
	if n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return size(n << shift), nil
}

func sizeMapper() kong.Mapper {
	return kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		t, err := ctx.Scan.PopValue("size")
		if err != nil {
			return err
		}
		n, err := parseSize(t.String())
		if err != nil {
			return err
		}
		target.SetInt(int64(n))
		return nil
	})
}
