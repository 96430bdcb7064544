package perf

import (
	"context"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/job/launch"
)

// ranksPerHost is the number of ranks of a host of --hosts without --ranks.
const ranksPerHost = 4

// onHosts makes hosts and starts n ranks on them.
func (o *Options) onHosts(ctx context.Context, kind device.Kind, n int) error {
	if o.Ranks == 0 && kind == device.Host {
		n = ranksPerHost * o.Hosts
	}
	if n%o.Hosts != 0 {
		return invalid("%d ranks on %d hosts: --ranks must be a multiple of --hosts", n, o.Hosts)
	}
	if o.Layout == LayoutThreads {
		return invalid("--threads: the ranks of a process are on one host: leave it out with --hosts")
	}
	w, err := netns.New(o.Hosts)
	if err != nil {
		return err
	}
	defer w.Close()
	return o.start(ctx, n, launch.HostsOf(w)...)
}
