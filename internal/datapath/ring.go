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

// ringReader takes packets from the ring that a BPF program fills (bpf.Ring), before the socket. The program counts packets that it leaves
// to the socket, so the socket is read only if it has some, and not at every poll. Packets that the program does not see, from addresses of
// this machine, are found by polls that are spread as in socketReader.
type ringReader struct {
	*rxring.Ring               // the owner's, but for Sleeps
	give         func() error  // ends the filling
	lease        *broker.Lease // nil when the program is ours

	passed atomic.Uint64 // to the socket, as of the last look
	owed   int           // how many of them are not received yet
	given  uint64        // how many of them the engine has got
	mark   uint64        // passed when tries began
	tries  int           // polls that emptied the socket until packets owed up to mark count as lost
	quiet  int           // polls since the last packet of the socket, including skipped ones
	skip   int           // looks still to be skipped
	parts  int           // looks of a spin before a sleep

	packets atomic.Uint64 // that came by the ring
	gone    atomic.Bool   // the broker ended, and its program with it
}

// attachRing gives the device a ring of our own.
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

// useRing has the device take packets from a ring, which give gives back.
func (d *socketDevice) useRing(packets, page, size int, give func() error) error {
	ring, err := rxring.Open(packets, page, size)
	if err != nil {
		return err
	}
	r := &ringReader{Ring: ring, give: give}
	d.Also(packets, r.Waiting, r.Waiting)
	d.Glimpse = func() bool { return r.glimpse() && (r.Waiting() || d.in.Readable()) }
	d.Dozes = r.doze
	d.ring, d.info.Datapath = r, plan.Ring
	return nil
}

// doze tells the program whether anybody looks. Once it is gone nobody does: one that lingers gives everything to the socket.
func (r *ringReader) doze(yes bool) {
	if !yes {
		r.Sleeps(rxring.Awake)
	}
	if yes || r.gone.Load() {
		r.Sleeps(rxring.AtSocket)
	}
}

// follow waits until the broker ends, and has the socket serve alone then.
func (d *socketDevice) followRing() {
	if d.ring.lease.Gone() {
		d.ring.gone.Store(true)
		d.ring.Sleeps(rxring.AtSocket)
		d.Wake()
	}
}

// glimpse says whether to look, for one who looks often: at memory but now and then.
func (r *ringReader) glimpse() bool {
	r.parts++
	return r.Waiting() || r.passes() || r.parts%looksPerGlimpse == 0
}

// passes says that the socket got packets since the last look at it.
func (r *ringReader) passes() bool { return r.Passed() != r.passed.Load() }

// socketDue says whether to look at the socket.
func (r *ringReader) socketDue() bool {
	if passed, before := r.Passed(), r.passed.Load(); passed != before {
		if r.owed == 0 {
			r.mark, r.tries = passed, hotLooks
		}
		r.owed += int(passed - before)
		r.passed.Store(passed)
	}
	if r.owed == 0 && r.skip > 0 && !r.gone.Load() {
		r.skip--
		return false
	}
	return true
}

// merge fills pkts with packets of the ring and of the last poll of the socket, in the order of arrival: each packet of the ring says how
// many of the socket's came before it. fromRing and fromSocket provide the packets. The receiver is nil before the socket's first packet.
func (r *ringReader) merge(pkts []provider.RxPacket, receiver *udp.Receiver, fromRing, fromSocket func([]provider.RxPacket) int) (n int) {
	r.Edge() // behind the look: what is put into the ring from now on comes later
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
	if receiver == nil || !receiver.Waiting() { // what is owed no more may have been lost, or of this machine
		r.given = r.passed.Load() - uint64(r.owed)
		r.Behind(r.given)
		n += fromRing(pkts[n:])
	}
	return n
}

// looked learns that a look at the socket brought so many messages, and whether more may be there.
func (r *ringReader) looked(messages int, more bool) {
	r.owed = max(r.owed-messages, 0)
	switch {
	case messages > 0:
		r.quiet, r.skip = 0, 0
	case r.owed == 0:
		r.skip = min(r.quiet/8, mostSkipped)
		r.quiet = min(r.quiet+r.skip+1, 8*mostSkipped)
	}
	if r.owed == 0 || more {
		return
	}
	if r.tries--; r.tries <= 0 { // the socket's buffer was full, or the firewall has them: others that come meanwhile do not change that
		passed := r.passed.Load()
		r.owed = min(r.owed, int(passed-r.mark))
		r.mark, r.tries = passed, hotLooks
	}
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

// addTo adds what it counted.
func (r *ringReader) addTo(s *Stats) {
	if r != nil {
		s.InRing = r.packets.Load()
	}
}

// describe says what became of the ring.
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
