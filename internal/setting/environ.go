package setting

import (
	"os"
	"strings"
)

// Get returns the value of a variable, or "".
func Get(name string) string { return os.Getenv(name) }

// Environ returns all variables as "name=value".
func Environ() []string { return os.Environ() }

// Load makes the environment of Go agree with entries ("name=value"), the environment of a C program that loads goccl.
// It does not set variables that already agree: setting one also changes C's environment, which other threads may be
// reading.
func Load(entries []string) {
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
