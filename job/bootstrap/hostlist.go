package bootstrap

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds the expansion of a hostlist.
const maxHosts = 1 << 16

// expandHostlist expands Slurm's compact form: "node[01-04,7],x3" is node01 node02 node03 node04 node7 x3. A name may
// have several brackets; the rightmost varies fastest.
func expandHostlist(s string) ([]string, error) {
	bad := func(why string) ([]string, error) {
		return nil, fmt.Errorf("%w: hostlist %q: %s", ErrInvalid, s, why)
	}
	var out []string
	for rest := s; rest != ""; {
		item, next, err := cutItem(rest)
		if err != nil {
			return bad(err.Error())
		}
		names, err := expandItem(item)
		if err != nil {
			return bad(err.Error())
		}
		if out = append(out, names...); len(out) > maxHosts {
			return bad(fmt.Sprintf("more than %d hosts", maxHosts))
		}
		rest = next
	}
	return out, nil
}

// cutItem splits at the first comma outside brackets.
func cutItem(s string) (item, rest string, err error) {
	inside := false
	for i, r := range s {
		switch {
		case r == '[' && !inside:
			inside = true
		case r == ']' && inside:
			inside = false
		case r == '[' || r == ']':
			return "", "", fmt.Errorf("unbalanced brackets")
		case r == ',' && !inside:
			if i == 0 || i == len(s)-1 {
				return "", "", fmt.Errorf("an empty name")
			}
			return s[:i], s[i+1:], nil
		}
	}
	if inside {
		return "", "", fmt.Errorf("unbalanced brackets")
	}
	return s, "", nil
}

func expandItem(s string) ([]string, error) {
	out := []string{""}
	for s != "" {
		open := strings.IndexByte(s, '[')
		if open < 0 {
			open = len(s)
		}
		choices := []string{s[:open]}
		if s = s[open:]; s != "" {
			end := strings.IndexByte(s, ']') // cutItem has checked the balance
			numbers, err := expandRanges(s[1:end])
			if err != nil {
				return nil, err
			}
			s = s[end+1:]
			for i := range numbers {
				numbers[i] = choices[0] + numbers[i]
			}
			choices = numbers
		}
		if len(out)*len(choices) > maxHosts {
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
		product := make([]string, 0, len(out)*len(choices))
		for _, head := range out {
			for _, tail := range choices {
				product = append(product, head+tail)
			}
		}
		out = product
	}
	return out, nil
}

// expandRanges expands "01-04,7". Numbers keep the width of the range's start.
func expandRanges(s string) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err1 := strconv.ParseUint(from, 10, 31)
		hi, err2 := strconv.ParseUint(to, 10, 31)
		if err1 != nil || err2 != nil || hi < lo || len(from) > 10 {
			return nil, fmt.Errorf("%q is not a range of numbers", part)
		}
		if hi-lo >= maxHosts || len(out)+int(hi-lo) >= maxHosts {
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
		for n := lo; n <= hi; n++ {
			out = append(out, fmt.Sprintf("%0*d", len(from), n))
		}
	}
	return out, nil
}
