// Package setting parses environment variables uniformly: an invalid value is an error, never ignored.
//
// # Lifetime and threads
//
// The package keeps no state. Functions may be called from any goroutine.
package setting

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Duration parses a Go duration such as 30s, or seconds. It returns otherwise if the variable is not set.
func Duration(name string, otherwise time.Duration) (time.Duration, error) {
	s := os.Getenv(name)
	if s == "" {
		return otherwise, nil
	}
	if sec, err := strconv.ParseFloat(s, 64); err == nil && sec >= 0 && sec < 1e9 {
		return time.Duration(sec * float64(time.Second)), nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%s=%q: want a duration such as 30s, or seconds", name, s)
}

// Positive is Duration for values that must be positive.
func Positive(name string, otherwise time.Duration) (time.Duration, error) {
	d, err := Duration(name, otherwise)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%s=%q: want a positive duration, such as 30s", name, os.Getenv(name))
	}
	return d, err
}
