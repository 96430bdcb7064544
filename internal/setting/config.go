package setting

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config holds what the environment sets. A variable that is not set, or has a bad value, has its default.
type Config struct {
	Timeout      time.Duration // 0: not set; see TimeoutOr
	OpTimeout    time.Duration // 0: none
	StallWarning time.Duration // 0: never
	SpinLimit    time.Duration // 0: none

	Secret    string
	Interface string
	Family    int // 4, 6, or 0 for either
	HostID    string
	CommID    string

	Check          bool
	Algorithms     string
	Overlap        bool
	Tuning         string // a file
	PlanDir        string
	MaxCTAs        uint16 // 0: no limit
	CopyEngine     Copies
	SeparateGraphs bool

	CacheDir string
	CUDALib  string
	NVMLLib  string
	NVRTC    string
	Toolkits []string // CUDA_HOME, CUDA_PATH

	Device    Device
	Debug     string
	DebugFile string
	GOGC      string

	MasterAddr string
	Terminal   string // a file of goccl perf
	NoProgress bool   // no progress line on a terminal
	Full       string // not empty: long tests run
}

// Copies says when copy engines run all-gathers and all-to-alls into windows. Smaller is less.
type Copies uint8

// The values of Copies.
const (
	CopyNever  Copies = iota
	CopyLarge         // from the sizes where they measured no slower than kernels
	CopyAlways        // from the sizes where they work
)

// Device is the kind of device that the C ABI opens.
type Device uint8

// The values of Device.
const (
	CUDA Device = iota
	Host
)

// Read parses the environment. The Config is never nil. The error names every variable with a bad value, the value and
// what is allowed; with names, it is only of those variables, for callers that need no others.
func Read(names ...string) (*Config, error) { return Parse(Get, names...) }

// Parse is Read with another source of values.
func Parse(get func(name string) string, names ...string) (*Config, error) {
	c := &Config{StallWarning: 30 * time.Second, SpinLimit: 10 * time.Minute, Overlap: true, CopyEngine: CopyLarge}
	var errs []error
	for i := range table {
		v := &table[i]
		name, value := v.Name, get(v.Name)
		if value == "" && v.Alias != "" {
			name, value = v.Alias, get(v.Alias)
		}
		if value == "" || v.set == nil {
			continue
		}
		if !v.set(c, value) && (len(names) == 0 || slices.Contains(names, v.Name)) {
			errs = append(errs, fmt.Errorf("%s=%q: want %s", name, value, v.Want))
		}
	}
	return c, errors.Join(errs...)
}

// Lenient is Read for callers that no bad value concerns: they need a text, which is never bad.
func Lenient() *Config {
	c, _ := Read()
	return c
}

// Wanted says what is allowed for a variable, by either of its names, if value is not; else it is "". Variables that
// are not in the table, or that Go does not read, have no bad values.
func Wanted(name, value string) string {
	for i := range table {
		if v := &table[i]; (v.Name == name || v.Alias == name) && v.set != nil && value != "" && !v.set(new(Config), value) {
			return v.Want
		}
	}
	return ""
}

// TimeoutOr is the time for which set-up and host calls wait for other ranks: GOCCL_TIMEOUT, or a default of the
// caller.
func (c *Config) TimeoutOr(otherwise time.Duration) time.Duration {
	return cmp.Or(c.Timeout, otherwise)
}
