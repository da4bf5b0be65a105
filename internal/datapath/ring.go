package datapath

import (
	"errors"
	"net/netip"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/rxring"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// ringReader reads packets from the ring that a BPF program fills (bpf.Ring), and then from the socket, to which the program leaves the
// rest.
type ringReader struct {
	*rxring.Ring               // belongs to the engine's owner, except Sleeps
	counted                    // the socket: packets that the program leaves to it
	give         func() error  // ends the filling
	lease        *broker.Lease // nil if this process attached the program

	given uint64 // number of packets that the engine has received
	parts int    // polls of the ring before a sleep

	packets atomic.Uint64 // packets that arrived in the ring
	gone    atomic.Bool   // the broker ended, and its program with it
}

// attachRing attaches a ring program of this process.
func (d *socketDevice) attachRing() error {
	program, err := bpf.AttachRing(d.info.Index, netip.AddrPortFrom(d.cfg.Address, d.local.Port))
	if err != nil {
		return err
	}
	packets, page := program.FDs()
	if err := d.useRing(packets, page, bpf.RingBytes, program.Close); err != nil {
		return errors.Join(err, program.Close())
	}
	return nil
}

// useRing makes the device read packets from a ring. give frees the ring.
func (d *socketDevice) useRing(packets, page, size int, give func() error) error {
	ring, err := rxring.Open(packets, page, size)
	if err != nil {
		return err
	}
	r := &ringReader{Ring: ring, counted: counted{count: ring.Passed}, give: give}
	d.Also(packets, r.Waiting, r.Waiting)
	d.Glimpse = func() bool { return r.glimpse() && (r.Waiting() || d.in.Readable()) }
	d.Dozes = r.doze
	d.ring, d.info.Datapath = r, plan.Ring
	return nil
}

// doze tells the program whether this process sleeps. After the broker has ended, the program never wakes this process: a program that
// remains leaves all packets to the socket.
func (r *ringReader) doze(yes bool) {
	if !yes {
		r.Sleeps(rxring.Awake)
	}
	if yes || r.gone.Load() {
		r.Sleeps(rxring.AtSocket)
	}
}

// followRing waits until the broker ends, and then makes the socket the only source of packets.
func (d *socketDevice) followRing() {
	if d.ring.lease.Gone() {
		d.ring.gone.Store(true)
		d.ring.Sleeps(rxring.AtSocket)
		d.Wake()
	}
}

// glimpse is ready for a caller that polls often. It mostly reads only memory.
func (r *ringReader) glimpse() bool {
	r.parts++
	return r.Waiting() || r.passes() || r.parts%looksPerGlimpse == 0
}

// socketDue reports whether to poll the socket now.
func (r *ringReader) socketDue() bool { return r.due() || r.gone.Load() }

// merge fills pkts with packets of the ring and of the last poll of the socket, in the order of arrival. Each packet of the ring has the
// number of socket packets that came before it. fromRing and fromSocket provide the packets. The receiver is nil before the socket's
// first packet.
func (r *ringReader) merge(pkts []provider.RxPacket, receiver *udp.Receiver, fromRing, fromSocket func([]provider.RxPacket) int) (n int) {
	r.Edge() // after the poll of the socket: packets that enter the ring from now on are newer
	for {
		r.Behind(r.given)
		n += fromRing(pkts[n:])
		if n == len(pkts) || receiver == nil || !receiver.Waiting() {
			break
		}
		done := receiver.Done()
		receiver.Stop(max(r.Ahead(udpBatch), 1))
		n += fromSocket(pkts[n:])
		r.given += uint64(receiver.Done() - done)
	}
	if receiver == nil || !receiver.Waiting() { // packets that are still owed may have been lost, or were from this machine
		r.given = r.passed.Load() - uint64(r.owed)
		r.Behind(r.given)
		n += fromRing(pkts[n:])
	}
	return n
}

// receiveCopies fills pkts with copies of packets from the ring and returns how many.
func (d *socketDevice) receiveCopies(pkts []provider.RxPacket) (n int) {
	var arrived rxring.Packet
	for n < len(pkts) {
		id, ok := d.receiver.Frame()
		if !ok {
			break
		}
		if !d.ring.Next(&arrived) {
			d.receiver.Release(id)
			break
		}
		if len(arrived.Data) < wire.BaseHeaderLen {
			d.receiver.Release(id)
			d.foreign.Add(1)
			continue
		}
		p := &pkts[n]
		data := d.rxPool.Frame(id)[:len(arrived.Data)]
		copy(data, arrived.Data)
		p.From, p.To, p.CE = wire.Endpoint{IP: arrived.IP, Port: arrived.Port}, d.local, arrived.Marked
		p.Frags[0] = provider.Frag{Data: data, ID: uint64(id)}
		p.N, p.Len, p.Merged, p.Bulk, p.Arrived = 1, len(data), false, false, monotonic(arrived.Arrived)
		n++
	}
	d.ring.Release()
	if n > 0 {
		d.ring.packets.Add(uint64(n))
	}
	return n
}

// addTo adds the counters to the counters of a device.
func (r *ringReader) addTo(s *Stats) {
	if r != nil {
		s.InRing = r.packets.Load()
	}
}

// describe adds the state of the ring to Info.
func (r *ringReader) describe(i *Info) {
	switch {
	case r == nil:
	case r.gone.Load():
		i.Datapath, i.Reason = plan.UDP, i.Reason+"; the broker at "+r.lease.Path+" has ended, and the ring that it filled"
	case r.lease != nil:
		i.Reason += "; small packets arrive in a ring that the broker at " + r.lease.Path + " has filled"
	case i.Reason != plan.AskedFor:
		i.Reason += plan.RingReason
	}
}
