package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/goccl/goccl/internal/setting"
)

// size is a number of bytes: 8, 64K, 64M, 1G; KiB, MiB and GiB mean the same as K, M and G, as in nccl-tests.
type size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *size) UnmarshalText(b []byte) (err error) {
	*n, err = parseSize(string(b))
	return err
}

// count is a number of things, of which there is at least one.
type count int

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *count) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 1 {
		return fmt.Errorf("%q: use a whole number of at least 1", b)
	}
	*c = count(n)
	return nil
}

// sizes is a list of sizes, separated by commas, of which there is at least one.
type sizes []size

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *sizes) UnmarshalText(b []byte) error {
	for s := range strings.SplitSeq(string(b), ",") {
		n, err := parseSize(s)
		if err != nil {
			return err
		}
		*l = append(*l, n)
	}
	return nil
}

// durationMapper parses times such as 30s and 5m, and seconds, as the environment variables do.
func durationMapper() kong.Mapper {
	return kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		t, err := ctx.Scan.PopValue("duration")
		if err != nil {
			return err
		}
		d, ok := setting.ParseDuration(t.String())
		if !ok {
			return fmt.Errorf("%q is not a time: use one such as 30s or 5m, or seconds", t)
		}
		target.SetInt(int64(d))
		return nil
	})
}

func parseSize(s string) (size, error) {
	digits := strings.TrimRight(s, "KMGTkmgtiBb")
	whole, fraction, point := strings.Cut(digits, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	part, e := strconv.ParseFloat("0."+fraction, 64)
	if err != nil || n < 0 || point && (e != nil || fraction == "") {
		return 0, fmt.Errorf("%q is not a size: use bytes, with an optional K, M or G", s)
	}
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s[len(digits):]), "B"), "I")
	shift := 10 * slices.Index([]string{"", "K", "M", "G", "T"}, unit)
	if shift < 0 {
		return 0, fmt.Errorf("%q is not a size: unknown unit %q", s, unit)
	}
	if n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is too large", s)
	}
	rest := math.Ldexp(part, shift)
	if rest != math.Trunc(rest) {
		return 0, fmt.Errorf("%q is no whole number of bytes", s)
	}
	return size(n<<shift + int64(rest)), nil
}
