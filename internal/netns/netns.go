// Package netns makes hosts of this machine: network namespaces at one switch, for tests and measurements of jobs on
// several hosts. It needs root and the program ip.
//
// # Lifetime and threads
//
// A Network stays until Close, or until the machine restarts. It is used by one goroutine at a time.
package netns

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
)

// Cable is the name of the interface of each host.
const Cable = "cable"

// Network is a number of hosts. Host i has the address Address(i) on the interface Cable.
type Network struct {
	Hosts  []string // names for "ip netns exec"
	Switch string   // the namespace of the switch, which has the port port<i> for host i; may be ""
}

var count atomic.Int32

// New makes n connected hosts. If that is not permitted, the error has the reason.
func New(n int) (*Network, error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("hosts of one machine need the program ip (on Debian: apt-get install iproute2): %w", err)
	}
	name := fmt.Sprintf("goccl%d-%d", os.Getpid(), count.Add(1))
	w := &Network{Switch: name + "s"}
	list := []string{"netns add " + w.Switch, "-n " + w.Switch + " link add switch type bridge",
		"-n " + w.Switch + " link set switch up"}
	for i := range n {
		h := fmt.Sprintf("%sh%d", name, i)
		w.Hosts = append(w.Hosts, h)
		list = append(list, "netns add "+h,
			fmt.Sprintf("-n %s link add port%d type veth peer name %s netns %s", w.Switch, i, Cable, h),
			fmt.Sprintf("-n %s link set port%d master switch up", w.Switch, i),
			fmt.Sprintf("-n %s addr add %s/24 dev %s", h, w.Address(i), Cable),
			fmt.Sprintf("-n %s link set %s up", h, Cable), "-n "+h+" link set lo up")
	}
	for _, cmd := range list {
		if err := IP(cmd); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// Close removes the hosts. Processes on them keep running without a network.
func (w *Network) Close() {
	for _, ns := range append(w.Hosts, w.Switch) {
		if ns != "" {
			_ = exec.Command("ip", "netns", "del", ns).Run() // fails for one that was not made
		}
	}
}

// Address is the address of host i.
func (w *Network) Address(i int) string { return fmt.Sprintf("10.207.0.%d", i+1) }

// On is the beginning of a command that runs on host i.
func (w *Network) On(i int) []string { return []string{"ip", "netns", "exec", w.Hosts[i]} }

// IP runs the program ip.
func IP(args string) error {
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("no network namespaces here (they need root): ip %s: %w: %s", args, err, out)
	}
	return nil
}
