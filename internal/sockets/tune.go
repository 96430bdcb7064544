package sockets

import (
	"math"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Tune prepares a new connection. It makes a forked child close it. On TCP it disables delays and enables the detection
// of a dead peer host within seconds; with partition > 0 the kernel gives up a peer that acknowledges nothing for that
// time.
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
		ms := min(partition.Milliseconds(), math.MaxInt32) // the option has 32 bits
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(ms))
		})
	}
}
