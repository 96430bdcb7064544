package netns

import (
	"fmt"
	"os/exec"
)

// Port sets the switch's port of host i "up" or "down". A host with a port that is down notices nothing: its frames
// vanish.
func (w *Network) Port(i int, state string) error {
	return ip(fmt.Sprintf("-n %s link set port%d %s", w.Switch, i, state))
}

// Interface sets the interface of host i "up" or "down".
func (w *Network) Interface(i int, state string) error {
	return ip(fmt.Sprintf("-n %s link set %s %s", w.Hosts[i], Cable, state))
}

// Aside gives host i of any network an interface "aside", with the address 10.99.0.<i+1>, that leads to no other host.
func Aside(ns string, i int) error {
	for _, cmd := range []string{"link add aside type veth peer name nowhere",
		fmt.Sprintf("addr add 10.99.0.%d/24 dev aside", i+1), "link set nowhere up", "link set aside up"} {
		if err := ip("-n " + ns + " " + cmd); err != nil {
			return err
		}
	}
	return nil
}

// Lose makes host i lose the given share of the packets that it gets. It needs iptables.
func (w *Network) Lose(i int, share float64) error {
	return w.do(i, "iptables", "-A", "INPUT", "-i", Cable, "-m", "statistic", "--mode", "random", "--probability",
		fmt.Sprint(share), "-j", "DROP")
}

// Reset resets all TCP connections of host i with other hosts, as a firewall does that forgets them. It needs ss -K.
func (w *Network) Reset(i int) error {
	return w.do(i, "ss", "-K", "state", "established", "dst", "10.207.0.0/24")
}

func (w *Network) do(i int, args ...string) error {
	cmd := append(w.On(i), args...)
	if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", cmd, err, out)
	}
	return nil
}
