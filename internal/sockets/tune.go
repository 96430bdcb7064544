package sockets

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Tune prepares a new connection. A forked child closes it. One over TCP sends at once and notices within seconds that the peer's host is gone;
// partition > 0 makes the kernel give up on a peer that acknowledges nothing for so long.
func Tune(c net.Conn, partition time.Duration) {
	CloseInChild(c)
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = t.SetNoDelay(true)
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3})
	if partition <= 0 {
		return
	}
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(partition.Milliseconds()))
		})
	}
}
