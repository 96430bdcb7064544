package core

import (
	"os"
	"strings"
)

// LoadEnvironment makes os.Getenv agree with entries ("name=value"). It does not set variables that already agree:
// setting one also changes C's environment, which other threads may be reading.
func LoadEnvironment(entries []string) {
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" || there[name] {
			continue // getenv returns the first entry of a name
		}
		there[name] = true
		if had, is := os.LookupEnv(name); !is || had != value {
			_ = os.Setenv(name, value) // a name without "=" and a value without NUL cannot fail
		}
	}
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); !there[name] {
			_ = os.Unsetenv(name)
		}
	}
}
