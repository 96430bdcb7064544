package nvrtc

import (
	"cmp"
	"fmt"
	"regexp"
)

// Version identifies a compiler exactly: nvrtcVersion gives only the release, the build is read from the header of its
// PTX.
type Version struct {
	Major, Minor int
	Build        string // for example "V12.8.93 CL-35583870"
}

// String is the build, or the release when the build is not known.
func (v Version) String() string {
	return cmp.Or(v.Build, fmt.Sprintf("V%d.%d", v.Major, v.Minor))
}

var (
	reRelease = regexp.MustCompile(`(?m)^// Cuda compilation tools, release [0-9.]+, (V[0-9.]+)`)
	reBuildID = regexp.MustCompile(`(?m)^// Compiler Build ID: (\S+)`)
)

// buildOf reads the exact compiler version from the comment that opens every PTX text.
func buildOf(ptx string) string {
	r := reRelease.FindStringSubmatch(ptx)
	b := reBuildID.FindStringSubmatch(ptx)
	if r == nil || b == nil {
		return ""
	}
	return r[1] + " " + b[1]
}
