package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goccl/goccl/cmd/goccl/internal/perf"
	"github.com/goccl/goccl/internal/setting"
)

// mappers read what kong cannot: times by their type, numbers by the name in a field's tag.
func mappers() []kong.Option {
	return []kong.Option{kong.TypeMapper(reflect.TypeFor[time.Duration](), number(parseDuration)),
		kong.NamedMapper("size", number(parseSize)), kong.NamedMapper("count", number(parseCount)),
		kong.NamedMapper("graph", number(parseGraph))}
}

// number returns a mapper for numbers, and for lists of them that are separated by commas.
func number(parse func(string) (int64, error)) kong.Mapper {
	return kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		t, err := ctx.Scan.PopValue("number")
		if err != nil {
			return err
		}
		if target.Kind() != reflect.Slice {
			n, err := parse(t.String())
			target.SetInt(n)
			return err
		}
		for s := range strings.SplitSeq(t.String(), ",") {
			n, err := parse(s)
			if err != nil {
				return err
			}
			target.Set(reflect.Append(target, reflect.ValueOf(n)))
		}
		return nil
	})
}

// parseDuration parses times such as 30s and 5m, and seconds, as the environment variables do.
func parseDuration(s string) (int64, error) {
	d, ok := setting.ParseDuration(s)
	if !ok {
		return 0, fmt.Errorf("%q is not a time: use one such as 30s or 5m, or seconds", s)
	}
	return int64(d), nil
}

// parseCount parses a number of things, of which there is at least one.
func parseCount(s string) (int64, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q: use a whole number of at least 1", s)
	}
	return int64(n), nil
}

// parseGraph parses a number of operations, or auto.
func parseGraph(s string) (int64, error) {
	if s == "auto" {
		return perf.GraphAuto, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number of operations: use a number, or auto", s)
	}
	return int64(n), nil
}

// parseSize parses a number of bytes: 8, 64K, 64M, 1G; KiB, MiB and GiB mean the same as K, M and G, as in nccl-tests.
func parseSize(s string) (int64, error) {
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
	return n<<shift + int64(rest), nil
}
