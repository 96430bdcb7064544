// Package badnet makes the network between the hosts of package netns worse, for tests.
//
// # Lifetime and threads
//
// It changes a Network, so it is used by one goroutine at a time. A Line's Bad may be called at any time.
package badnet

import (
	"fmt"
	"os/exec"

	"github.com/goccl/goccl/internal/netns"
)

// Port sets the switch's port of host i "up" or "down". A host with a port that is down notices nothing: its frames
// vanish.
func Port(w *netns.Network, i int, state string) error {
	return netns.IP(fmt.Sprintf("-n %s link set port%d %s", w.Switch, i, state))
}

// Interface sets the interface of host i "up" or "down".
func Interface(w *netns.Network, i int, state string) error {
	return netns.IP(fmt.Sprintf("-n %s link set %s %s", w.Hosts[i], netns.Cable, state))
}

// Aside gives host i of any network an interface "aside", with the address 10.99.0.<i+1>, that leads to no other host.
func Aside(ns string, i int) error {
	for _, cmd := range []string{"link add aside type veth peer name nowhere",
		fmt.Sprintf("addr add 10.99.0.%d/24 dev aside", i+1), "link set nowhere up", "link set aside up"} {
		if err := netns.IP("-n " + ns + " " + cmd); err != nil {
			return err
		}
	}
	return nil
}

// Lose makes host i lose the given share of the packets that it gets. It needs iptables.
func Lose(w *netns.Network, i int, share float64) error {
	return do(w, i, "iptables", "-A", "INPUT", "-i", netns.Cable, "-m", "statistic", "--mode", "random", "--probability",
		fmt.Sprint(share), "-j", "DROP")
}

// Reset resets all TCP connections of host i with other hosts, as a firewall does that forgets them. It needs ss -K.
func Reset(w *netns.Network, i int) error {
	return do(w, i, "ss", "-K", "state", "established", "dst", "10.207.0.0/24")
}

func do(w *netns.Network, i int, args ...string) error {
	cmd := append(w.On(i), args...)
	if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", cmd, err, out)
	}
	return nil
}
