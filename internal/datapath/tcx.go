package datapath

import (
	"errors"
	"net/netip"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
	"github.com/ndxdp/ndxdp/internal/rxring"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// This file implements plan.TCX: the AF_XDP socket of a queue sends, and a program at tcx ingress fills a ring that the queue receives
// from. A packet that is longer than a record, or that finds the ring full, arrives at the socket of the UDP port.

// lyingInRing is the ID of a packet whose bytes are in the ring.
const lyingInRing = 0

// attachTCX attaches the program that fills the ring, and opens a socket that only sends.
func (d *xdpDevice) attachTCX(nic *xdp.NIC) error {
	program, err := bpf.AttachRing(nic.Index, netip.AddrPortFrom(d.cfg.Address, d.cfg.UDPPort))
	if err != nil {
		return err
	}
	d.filling = program
	if d.info.Copying, err = d.openQueues(nic, plan.BindFacts{Datapath: plan.TCX, MultiBuffer: xdp.MultiBufferSupported()}); err != nil {
		return errors.Join(err, d.detach())
	}
	d.info.Datapath = plan.TCX
	return nil
}

// mapRing maps the ring, and makes sleeping goroutines wait for the ring. Waiting for a socket that only sends would run its transmit
// loop in the kernel.
func (q *queue) mapRing(program *bpf.Ring) error {
	packets, page := program.FDs()
	ring, err := rxring.Open(packets, page, bpf.RingBytes)
	if err != nil {
		return err
	}
	q.ring = &ringReader{Ring: ring, counted: counted{count: ring.Passed}}
	q.Sleeper, err = sleep.New(packets, ring.Waiting, q.device.cfg.LongestSpin())
	if err == nil {
		q.Dozes = q.doze
	}
	return err
}

// doze tells the program whether this process sleeps.
func (q *queue) doze(yes bool) {
	if yes {
		q.ring.Sleeps(rxring.AtRing)
	} else {
		q.ring.Sleeps(rxring.Awake)
	}
}

// receiveTCX is Receive. Packets of the ring and of the UDP port's socket are returned in the order of arrival. Each packet of the ring
// has the number of socket packets that came before it. Packets from this machine, and packets of the bulk path, have no known order, and
// get a part of the batch.
func (q *queue) receiveTCX(pkts []provider.RxPacket) (n int) {
	share := min(besideShare, len(pkts)/2)
	room := len(pkts)
	for _, r := range q.beside[1:] {
		if r.hot() {
			room -= share
			share /= 2
		}
	}
	behind := q.beside[0]
	if some := behind.ready(); some && q.ring.given == q.ring.passed.Load() { // none of these packets arrived on the interface
		n = behind.take(pkts[:share])
	}
	n += q.ring.merge(pkts[n:room], behind.receiver, q.receiveInPlace, behind.take)
	for _, r := range q.beside[1:] {
		n += r.receive(pkts[n:])
	}
	return n
}

// receiveInPlace fills pkts with packets that stay in the ring until they are recycled.
func (q *queue) receiveInPlace(pkts []provider.RxPacket) (n int) {
	var arrived rxring.Packet
	to := q.device.local.local
	for n < len(pkts) && q.ring.Next(&arrived) {
		if len(arrived.Data) < wire.BaseHeaderLen {
			q.foreign.Add(1)
			continue
		}
		last := len(arrived.Data) - 1
		q.touched += arrived.Data[min(cacheLine, last)] + arrived.Data[min(2*cacheLine, last)] // as touch
		p := &pkts[n]
		p.From, p.To, p.MAC, p.CE = wire.Endpoint{IP: arrived.IP, Port: arrived.Port}, to, arrived.MAC, arrived.Marked
		p.Frags[0] = provider.Frag{Data: arrived.Data, ID: lyingInRing}
		p.N, p.Len, p.Merged, p.Bulk, p.Arrived = 1, len(arrived.Data), false, false, monotonic(arrived.Arrived)
		n++
	}
	q.lentOut += n
	if n > 0 {
		q.ring.packets.Add(uint64(n))
	} else if q.lentOut == 0 {
		q.ring.Release() // the record is no packet
	}
	return n
}

// recycleTCX takes back a packet. The kernel may use the space of all packets again once none is in use, which is at the end of a batch.
func (q *queue) recycleTCX() {
	if q.lentOut--; q.lentOut == 0 {
		q.ring.Release()
	}
}
