package bootstrap

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Slurm's compact form of a list of hosts: "node[01-04,7],x3" is node01 node02 node03 node04 node7 x3. A name may have
// several brackets; the rightmost varies fastest.
var (
	hostNumbers = regexp.MustCompile(`\[\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*\]`)
	hostName    = regexp.MustCompile(`([^][,]|` + hostNumbers.String() + `)+`)
	hostList    = regexp.MustCompile(`^` + hostName.String() + `(,` + hostName.String() + `)*$`)
)

// firstHost returns the first host of Slurm's list, and whether there are others. Numbers keep the width of the start
// of their range.
func firstHost(list string) (host string, more bool, err error) {
	if !hostList.MatchString(list) {
		return "", false, fmt.Errorf("%w: hostlist %q", ErrInvalid, list)
	}
	name := hostName.FindString(list)
	more = name != list
	host = hostNumbers.ReplaceAllStringFunc(name, func(numbers string) string {
		first, _, others := strings.Cut(strings.Trim(numbers, "[]"), ",")
		from, to, isRange := strings.Cut(first, "-")
		lo, _ := strconv.Atoi(from)
		hi, _ := strconv.Atoi(to)
		if isRange && hi < lo {
			err = fmt.Errorf("%w: hostlist %q: %q is not a range of numbers", ErrInvalid, list, first)
		}
		more = more || others || isRange && hi > lo
		return from
	})
	return host, more, err
}
