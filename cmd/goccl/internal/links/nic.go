package links

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/transport"
)

// NIC is what an adapter of a network really does, in a loop from this host to itself.
type NIC struct {
	Net, Name string
	// Speed is what the adapter promises, in GB/s in one direction; 0 if it does not say.
	Speed float64
	// DeviceMem: the adapter reaches GPU memory.
	DeviceMem bool
	// Micros is half of the time of a put of 8 bytes and one back; GBps the bandwidth of large puts.
	Micros, GBps float64
	Error        string
}

const (
	nicBytes = 8 << 20
	nicTimes = 8
	nicTurns = 200
)

// MeasureNICs examines the adapters of networks, each within a limit.
func MeasureNICs(ctx context.Context, nets []transport.Net, limit time.Duration) []NIC {
	var all []NIC
	for _, n := range nets {
		nics, err := n.NICs()
		if err != nil {
			all = append(all, NIC{Net: n.Name(), Error: err.Error()})
		}
		for i, nic := range nics {
			v := NIC{Net: n.Name(), Name: nic.Name, Speed: nic.Speed / 1e9, DeviceMem: nic.DeviceMem}
			bounded, stop := context.WithTimeout(ctx, limit)
			if err := v.measure(bounded, n, i); err != nil {
				v.Error = err.Error()
			}
			stop()
			all = append(all, v)
		}
	}
	return all
}

// side is one end of the loop.
type side struct {
	transport.Peer
	send, recv []byte
	from, to   transport.Region
	there      transport.RemoteRegion // the other end's recv
}

func (v *NIC) measure(ctx context.Context, n transport.Net, nic int) (err error) {
	port, err := n.Open(nic)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, port.Close()) }()
	dev, err := host.Open(0)
	if err != nil {
		return err
	}
	defer func() { _ = dev.Close() }() // after the port
	var ends [2]side
	for r := range ends {
		if err := ends[r].open(dev, port, r); err != nil {
			return err
		}
	}
	if err := both(func(r int) error { return ends[r].Connect(ctx, ends[1-r].Address()) }); err != nil {
		return err
	}
	for r := range ends {
		if ends[r].there, err = ends[r].Import(ends[1-r].to.Key()); err != nil {
			return err
		}
	}
	if err := both(func(r int) error { return ends[r].check(ctx, r) }); err != nil {
		return err
	}
	start := time.Now()
	if err := both(func(r int) error { return ends[r].turns(ctx, r) }); err != nil {
		return err
	}
	v.Micros = time.Since(start).Seconds() * 1e6 / nicTurns / 2
	start = time.Now()
	if err := both(func(r int) error { return ends[r].stream(ctx, r) }); err != nil {
		return err
	}
	v.GBps = nicTimes * nicBytes / time.Since(start).Seconds() / 1e9
	return nil
}

func (s *side) open(dev *host.Device, port transport.Port, r int) (err error) {
	if s.Peer, err = port.NewPeer(); err != nil {
		return err
	}
	for _, x := range []struct {
		bytes  *[]byte
		region *transport.Region
	}{{&s.send, &s.from}, {&s.recv, &s.to}} {
		m, err := dev.Alloc(nicBytes)
		if err != nil {
			return err
		}
		*x.bytes = device.Bytes(m.Ptr(), nicBytes)
		if *x.region, err = port.Register(dev, m.Ptr(), nicBytes); err != nil {
			return err
		}
	}
	copy(s.send, pattern(r, nicBytes))
	return nil
}

// The counters of immediates.
const (
	immCheck = iota
	immTurn
	immStream
)

func (s *side) put(size int64, imm uint32) error {
	return s.Put(s.from, 0, s.there, 0, size, imm, nil)
}

// check puts everything and compares the received data.
func (s *side) check(ctx context.Context, r int) error {
	if err := s.put(nicBytes, immCheck); err != nil {
		return err
	}
	if err := s.Wait(ctx, immCheck, 1); err != nil {
		return err
	}
	if !bytes.Equal(s.recv, pattern(1-r, nicBytes)) {
		return fmt.Errorf("wrong data in %d bytes that end %d received", nicBytes, r)
	}
	return s.Flush(ctx)
}

// turns puts 8 bytes after each that have come; end 0 begins.
func (s *side) turns(ctx context.Context, r int) error {
	for i := range uint64(nicTurns) {
		if r == 0 {
			if err := s.put(small, immTurn); err != nil {
				return err
			}
		}
		if err := s.Wait(ctx, immTurn, i+1); err != nil {
			return err
		}
		if r == 1 {
			if err := s.put(small, immTurn); err != nil {
				return err
			}
		}
	}
	return nil
}

// stream has end 0 put large pieces, and end 1 wait for them.
func (s *side) stream(ctx context.Context, r int) error {
	if r == 1 {
		return s.Wait(ctx, immStream, nicTimes)
	}
	for range nicTimes {
		if err := s.put(nicBytes, immStream); err != nil {
			return err
		}
	}
	return s.Flush(ctx)
}
