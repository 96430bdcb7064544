package core

import (
	"os"
	"strings"
)

// LoadEnvironment makes os.Getenv agree with entries ("name=value"). Variables that already do are left alone: setting one reaches C's environment too,
// which other threads may be reading.
func LoadEnvironment(entries []string) {
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" || there[name] {
			continue // getenv finds the first of a name
		}
		there[name] = true
		if had, is := os.LookupEnv(name); !is || had != value {
			_ = os.Setenv(name, value) // a name without "=" and bytes without NUL are always taken
		}
	}
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); !there[name] {
			_ = os.Unsetenv(name)
		}
	}
}
