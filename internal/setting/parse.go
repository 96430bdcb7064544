package setting

import (
	"strconv"
	"strings"
	"time"
)

// setter parses a value, which is not empty, into a field. It reports whether the value is allowed.
type setter func(c *Config, value string) bool

// ParseDuration parses a Go duration such as 30s, or seconds. It must not be negative.
func ParseDuration(s string) (time.Duration, bool) {
	if sec, err := strconv.ParseFloat(s, 64); err == nil && sec >= 0 && sec < 1e9 {
		return time.Duration(sec * float64(time.Second)), true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

func text(field func(*Config) *string) setter {
	return func(c *Config, s string) bool {
		*field(c) = s
		return true
	}
}

const wantDuration = "a duration such as 30s, or seconds"

func duration(field func(*Config) *time.Duration) setter {
	return func(c *Config, s string) bool {
		d, ok := ParseDuration(s)
		if ok {
			*field(c) = d
		}
		return ok
	}
}

const wantPositive = "a duration of more than nothing, such as 30s, or seconds"

func positive(field func(*Config) *time.Duration) setter {
	return func(c *Config, s string) bool {
		d, ok := ParseDuration(s)
		if ok = ok && d > 0; ok {
			*field(c) = d
		}
		return ok
	}
}

const wantSwitch = "1 or 0"

func flag(field func(*Config) *bool) setter {
	return func(c *Config, s string) bool {
		on, err := strconv.ParseBool(s)
		if err == nil {
			*field(c) = on
		}
		return err == nil
	}
}

func choice[T any](field func(*Config) *T, values map[string]T) setter {
	return func(c *Config, s string) bool {
		v, ok := values[s]
		if ok {
			*field(c) = v
		}
		return ok
	}
}

func setMaxCTAs(c *Config, s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return false
	}
	c.MaxCTAs = uint16(n)
	return true
}

// setGraphMixing obeys NCCL's variable as NCCL does: only 0 means anything.
func setGraphMixing(c *Config, s string) bool {
	c.SeparateGraphs = strings.TrimSpace(s) == "0"
	return true
}

func addToolkit(c *Config, s string) bool {
	c.Toolkits = append(c.Toolkits, s)
	return true
}

// noProgress switches the progress line off for some values.
func noProgress(off func(string) bool) setter {
	return func(c *Config, s string) bool {
		c.NoProgress = c.NoProgress || off(s)
		return true
	}
}
