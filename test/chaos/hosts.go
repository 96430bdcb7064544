package chaos

import (
	"math/rand/v2"
	"time"

	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/test/badnet"
)

var (
	acrossHosts = []string{"hosts-small", "hosts-large"}
	everywhere  = []string{"hosts-set-up", "hosts-small", "hosts-large", "hosts-colors"}
)

// networks are faults of the network between two hosts, and of ranks that it separates.
func networks() []*fault {
	second := func(*rand.Rand, int) []int { return nil }
	return []*fault{
		{Name: "host-kill", Number: 1, Help: "kill -9 of one rank of two hosts", victims: oneOf, strike: (*rank).kill,
			phases: everywhere},
		{Name: "host-dies", Number: 2, Help: "kill -9 of all ranks of a host", strike: (*rank).kill, phases: acrossHosts,
			victims: func(_ *rand.Rand, n int) []int { return everyone(n)[n/2:] }},
		{Name: "host-stop", Number: 4, Help: "SIGSTOP of one rank of two hosts for longer than the deadline of 1 s",
			expect: stall, victims: oneOf, strike: (*rank).stop, phases: everywhere, hold: time.Second},
		{Name: "host-abort", Number: 24, Help: "one rank of two hosts aborts the communicator", expect: leaving,
			victims: oneOf, strike: (*rank).abort, phases: everywhere},
		{Name: "host-pause", Number: 3, Help: "SIGSTOP of one rank, and SIGCONT 0.3 s later", expect: nothing, victims: oneOf,
			strike: (*rank).stop, outside: (*experiment).goOn, phases: acrossHosts},
		{Name: "host-clock", Number: 25, Help: "the wall clock of one rank of two hosts jumps by hours, to and fro",
			expect: nothing, victims: oneOf, strike: (*rank).jump, stretch: jumping, phases: acrossHosts},
		{Name: "partition", Number: 9, Help: "no packet passes between the hosts any more", expect: cut, victims: second,
			phases: acrossHosts, partition: true, outside: func(x *experiment) error {
				time.Sleep(x.Delay)
				x.struckAt = time.Now()
				return badnet.Port(x.network, 1, "down")
			}},
		{Name: "reset", Number: 9, Help: "all TCP connections between the hosts are reset (RST)", expect: nothing,
			phases: acrossHosts, tool: "ss", outside: func(x *experiment) error {
				time.Sleep(x.Delay)
				return badnet.Reset(x.network, 1)
			}},
		{Name: "link-down", Number: 9, Help: "a host's interface is down for 0.5 s", expect: nothing, phases: acrossHosts,
			outside: func(x *experiment) error {
				if err := badnet.Interface(x.network, 1, "down"); err != nil {
					return err
				}
				time.Sleep(500 * ms)
				return badnet.Interface(x.network, 1, "up")
			}},
		{Name: "loss", Number: 9, Help: "one packet of 50 is lost", expect: nothing, phases: acrossHosts, tool: "iptables",
			outside: func(x *experiment) error { return badnet.Lose(x.network, 1, 0.02) }},
		{Name: "delay", Number: 9, Help: "every packet takes 20 ms", expect: nothing, phases: []string{"hosts-small"},
			line: true, outside: func(x *experiment) error { x.line.Bad(0, 20*ms); return nil }},
	}
}

// connect makes the hosts of a trial, if it has several.
func (x *experiment) connect() (err error) {
	switch {
	case !x.phase.hosts:
		return nil
	case x.fault.line:
		if x.line, err = badnet.NewLine(); err == nil {
			x.network = x.line.Network
		}
	default:
		x.network, err = netns.New(2)
	}
	if err == nil {
		x.Address = x.network.Address(0) + ":20000"
	}
	return err
}

// host is the host of a rank.
func (t *Trial) host(r int) int { return r / ((t.Ranks + 1) / 2) }
