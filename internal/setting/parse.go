package setting

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// rule says what a variable may be.
type rule struct {
	// Want names the allowed values, for errors: "want …".
	Want string

	// set parses a value, which is not empty, into a field of a Config. It reports whether the value is allowed. nil: C
	// code, Python or scripts read the variable, not Go.
	set func(value string) bool
}

func parsed[T any](field *T, want string, parse func(string) (T, bool)) rule {
	return rule{want, func(s string) bool {
		v, ok := parse(s)
		if ok {
			*field = v
		}
		return ok
	}}
}

// ParseDuration parses a Go duration such as 30s, or seconds. It must not be negative, nor so long that a multiple of
// it, or the time after it, overflows.
func ParseDuration(s string) (time.Duration, bool) {
	const most = 1e9 // seconds
	if sec, err := strconv.ParseFloat(s, 64); err == nil && sec >= 0 && sec < most {
		return time.Duration(sec * float64(time.Second)), true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0 && d < most*time.Second
}

func text(field *string) rule {
	return parsed(field, "", func(s string) (string, bool) { return s, true })
}

func duration(field *time.Duration) rule {
	return parsed(field, "a duration such as 30s, or seconds", ParseDuration)
}

func positive(field *time.Duration) rule {
	return parsed(field, "a duration of more than nothing, such as 30s, or seconds", func(s string) (time.Duration, bool) {
		d, ok := ParseDuration(s)
		return d, ok && d > 0
	})
}

func signalOf(field *string) rule {
	return parsed(field, "USR1, USR2, HUP, WINCH or a number from 1 to 64", func(s string) (string, bool) {
		name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
		switch name {
		case "USR1", "USR2", "HUP", "WINCH":
			return name, true
		}
		n, err := strconv.Atoi(name)
		return name, err == nil && n >= 1 && n <= 64
	})
}

func flag(field *bool) rule {
	return parsed(field, "1 or 0", func(s string) (bool, bool) {
		on, err := strconv.ParseBool(s)
		return on, err == nil
	})
}

func choice[T any](field *T, want string, values map[string]T) rule {
	return parsed(field, want, func(s string) (T, bool) {
		v, ok := values[s]
		return v, ok
	})
}

func number(field *int, least, most int) rule {
	return parsed(field, fmt.Sprintf("a number from %d to %d", least, most), func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= least && n <= most
	})
}

func blocks(field *uint16) rule {
	return parsed(field, "a number of thread blocks, from 1 to 65535", func(s string) (uint16, bool) {
		n, err := strconv.ParseUint(s, 10, 16)
		return uint16(n), err == nil && n > 0
	})
}

// given is a variable whose value does not matter.
func given(field *bool) rule {
	return parsed(field, "", func(string) (bool, bool) { return true, true })
}

// ncclSwitch is on for every number except 0, as in NCCL. Text that is no number changes nothing, as in NCCL.
func ncclSwitch(field *bool) rule {
	return parsed(field, "", func(s string) (bool, bool) {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 0, 64)
		return err == nil && n != 0, true
	})
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

func (q Quorum) String() string {
	if q >= QuorumRank {
		return "rank " + strconv.Itoa(int(q-QuorumRank))
	}
	return [...]string{QuorumOff: "off", QuorumMajority: "majority"}[q]
}

// setCTAPolicy reads a number or names joined by "|", of which the one that spares most holds, as in NCCL.
func (c *Config) setCTAPolicy(s string) bool {
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

// setGraphMixing obeys NCCL's variable as NCCL does: only 0 means anything.
func (c *Config) setGraphMixing(s string) bool {
	c.SeparateGraphs = strings.TrimSpace(s) == "0"
	return true
}

func (c *Config) addToolkit(s string) bool {
	c.Toolkits = append(c.Toolkits, s)
	return true
}

// setTerm obeys TERM=dumb: such a terminal has neither a cursor that moves nor colours.
func (c *Config) setTerm(s string) bool {
	c.NoProgress, c.NoColor = c.NoProgress || s == "dumb", c.NoColor || s == "dumb"
	return true
}

func (c *Config) setRAS(s string) bool {
	n, err := strconv.Atoi(s)
	if c.RASEnable = 1; n == 0 {
		c.RASEnable = -1
	}
	return err == nil
}

// setP2PDirect can only turn registration off: GOCCL_REGISTER stands earlier in the table.
func (c *Config) setP2PDirect(s string) bool {
	var off bool
	ncclSwitch(&off).set(s)
	c.NoRegister = c.NoRegister || off
	return true
}

// setAllocator turns registration off where PyTorch's memory cannot be mapped by other processes.
func (c *Config) setAllocator(s string) bool {
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
func (c *Config) setP2PLevel(s string) bool {
	s = strings.TrimSpace(s)
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		c.P2PLevel = oldP2PLevels[min(n, len(oldP2PLevels)-1)]
		return true
	}
	c.P2PLevel = p2pLevels[strings.ToUpper(s)]
	return true
}
