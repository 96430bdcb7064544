package goccl

import (
	"context"

	"github.com/goccl/goccl/bootstrap"
)

// overNetwork sets up a communicator of one host whose ranks share no memory: the network is the last rung. From here
// on each rank counts as a host of its own.
func (c *Comm) overNetwork(ctx context.Context) error {
	c.boot = bootstrap.Apart(c.boot)
	e, err := c.acrossHosts(ctx)
	if err == nil {
		c.engine = e
	}
	return err
}
