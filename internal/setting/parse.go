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

func signalOf(field func(*Config) *string) setter {
	return func(c *Config, s string) bool {
		name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
		n, err := strconv.Atoi(name)
		switch name {
		case "USR1", "USR2", "HUP", "WINCH":
		default:
			if err != nil || n < 1 || n > 64 {
				return false
			}
		}
		*field(c) = name
		return true
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

// WantQuorum names the values that ParseQuorum takes.
const WantQuorum = "off, majority or rank N"

// ParseQuorum parses a value of GOCCL_QUORUM.
func ParseQuorum(s string) (q Quorum, ok bool) {
	if n, found := strings.CutPrefix(s, "rank "); found {
		r, err := strconv.ParseUint(n, 10, 31)
		return QuorumRank + Quorum(r), err == nil
	}
	q, ok = map[string]Quorum{"off": QuorumOff, "majority": QuorumMajority}[s]
	return q, ok
}

func quorum(c *Config, s string) (ok bool) {
	c.Quorum, ok = ParseQuorum(s)
	return ok
}

func (q Quorum) String() string {
	if q >= QuorumRank {
		return "rank " + strconv.Itoa(int(q-QuorumRank))
	}
	return [...]string{QuorumOff: "off", QuorumMajority: "majority"}[q]
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

func blocks(field func(*Config) *uint16) setter {
	return func(c *Config, s string) bool {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 {
			return false
		}
		*field(c) = uint16(n)
		return true
	}
}

// setCTAPolicy reads a number or names joined by "|", of which the one that spares most holds, as in NCCL.
func setCTAPolicy(c *Config, s string) bool {
	for name := range strings.SplitSeq(strings.ToUpper(s), "|") {
		switch strings.TrimSpace(name) {
		case "0", "DEFAULT":
			c.CTAPolicy = max(c.CTAPolicy, CTAPolicyDefault)
		case "1", "EFFICIENCY":
			c.CTAPolicy = max(c.CTAPolicy, CTAPolicyEfficiency)
		case "2", "ZERO":
			c.CTAPolicy = max(c.CTAPolicy, CTAPolicyZero)
		default:
			return false
		}
	}
	return true
}

// number parses a number from least to most.
func number(field func(*Config) *int, least, most int) setter {
	return func(c *Config, s string) bool {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return false
		}
		*field(c) = n
		return true
	}
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

// setTerm obeys TERM=dumb: such a terminal has neither a cursor that moves nor colours.
func setTerm(c *Config, s string) bool {
	c.NoProgress, c.NoColor = c.NoProgress || s == "dumb", c.NoColor || s == "dumb"
	return true
}

func setRAS(c *Config, s string) bool {
	n, err := strconv.Atoi(s)
	if c.RASEnable = 1; n == 0 {
		c.RASEnable = -1
	}
	return err == nil
}

// given is a variable whose value does not matter.
func given(field func(*Config) *bool) setter {
	return func(c *Config, _ string) bool {
		*field(c) = true
		return true
	}
}

// ncclSwitch is on for every number except 0, as in NCCL. Text that is no number changes nothing, as in NCCL.
func ncclSwitch(field func(*Config) *bool) setter {
	return func(c *Config, s string) bool {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 0, 64)
		*field(c) = err == nil && n != 0
		return true
	}
}

// setP2PDirect can only turn registration off: GOCCL_REGISTER stands earlier in the table.
func setP2PDirect(c *Config, s string) bool {
	var off bool
	ncclSwitch(func(*Config) *bool { return &off })(c, s)
	c.NoRegister = c.NoRegister || off
	return true
}

// setAllocator turns registration off where PyTorch's memory cannot be mapped by other processes.
func setAllocator(c *Config, s string) bool {
	s = strings.ReplaceAll(s, " ", "")
	c.NoRegister = c.NoRegister || strings.Contains(s, "expandable_segments:True") ||
		strings.Contains(s, "backend:cudaMallocAsync")
	return true
}

// p2pLevels are NCCL's names. Its old numbers are the second row; larger numbers are 5.
var (
	p2pLevels = map[string]P2PLevel{"LOC": P2PNever, "NVL": P2PNVLink, "NVB": P2PNVLink, "PIX": P2PSwitch,
		"PXB": P2PSwitches, "PHB": P2PHostBridge, "NODE": P2PHostBridge, "SYS": P2PSystem}
	oldP2PLevels = []P2PLevel{P2PNever, P2PSwitch, P2PSwitches, P2PHostBridge, P2PSystem, P2PSystem}
)

// setP2PLevel obeys NCCL's variable. NCCL warns about another text and goes on; so does goccl doctor here.
func setP2PLevel(c *Config, s string) bool {
	s = strings.TrimSpace(s)
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		c.P2PLevel = oldP2PLevels[min(n, len(oldP2PLevels)-1)]
		return true
	}
	c.P2PLevel = p2pLevels[strings.ToUpper(s)]
	return true
}
