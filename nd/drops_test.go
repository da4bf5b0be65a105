package nd_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/wire"
)

// provocation makes an adapter drop packets for one reason.
type provocation struct {
	datapath nd.Datapath // auto means AF_XDP
	mtu      int         // 0 is 1500
	queues   int         // 0 is 1
	do       func(r *dropRig)
}

// aWrite is a Write of zero bytes, which is valid at any time.
var aWrite = wire.Op{Opcode: wire.OpWrite}

func same(*wire.BaseFields) {}

// dropProvocations simulate attackers and faulty peers.
var dropProvocations = map[string]provocation{
	"not_nd":   {do: func(r *dropRig) { r.raw(stranger, make([]byte, 8)) }},
	"version":  {do: func(r *dropRig) { r.raw(stranger, append([]byte{0xf0}, make([]byte, 99)...)) }},
	"reserved": {do: func(r *dropRig) { r.raw(stranger, append([]byte{wire.Version<<4 | 3}, make([]byte, 99)...)) }},
	"crc":      {do: func(r *dropRig) { r.raw(stranger, append([]byte{wire.Version << 4}, make([]byte, 99)...)) }},
	"short":    {do: func(r *dropRig) { r.send(stranger, wire.BaseFields{}, []byte{byte(wire.CtlPing), 0, 0, 200}) }},
	"opcode":   {do: func(r *dropRig) { r.control(0x1f) }},
	"length":   {do: func(r *dropRig) { r.control(wire.CtlRTU, 0, 0, 0, 0, 0) }},
	"trailing": {do: func(r *dropRig) { r.send(stranger, wire.BaseFields{}, append(controlOf(wire.CtlPEND), 0)) }},
	"control":  {do: func(r *dropRig) { r.control(wire.CtlPEND) }},
	"unknown_conn": {do: func(r *dropRig) {
		r.send(stranger, wire.BaseFields{Operations: true, ConnID: 1}, make([]byte, wire.MaxOpHeader))
	}},
	"rate": {do: func(r *dropRig) {
		for range 1000 { // more RSTs than one source gets
			r.send(stranger, wire.BaseFields{Operations: true, ConnID: 1}, make([]byte, 100))
		}
	}},
	"item": {do: func(r *dropRig) {
		h := wire.Hello{ConnID: 1, Nonce: 1, MaxPacket: wire.MinPacket}
		body := controlOf(wire.CtlREQ, append(h.Append(nil), 0)...)
		r.send(stranger, wire.BaseFields{}, append(body, make([]byte, wire.MinPacket-wire.BaseHeaderLen-len(body))...))
	}},
	"no_listener": {do: func(r *dropRig) { r.ask(7) }},
	"address": {do: func(r *dropRig) { // the address of a peer that no packet can be sent to
		h := wire.Hello{ConnID: 1, Nonce: 1, MaxPacket: wire.MinPacket - 1}
		body := controlOf(wire.CtlREQ, h.Append(nil)...)
		r.send(stranger, wire.BaseFields{}, append(body, make([]byte, wire.MinPacket-wire.BaseHeaderLen-len(body))...))
	}},
	"path": {do: func(r *dropRig) {
		f := r.connect().next
		f.Number += 1 << 16 // an unexpected number, from a port that is not validated
		r.send(stranger, f, make([]byte, wire.MaxOpHeader))
	}},
	"backlog": {do: func(r *dropRig) {
		r.listen(8, 1)
		r.answer(r.ask(8), wire.CtlPEND)
		id := r.ask(8)
		r.askAs(id, 8, slices.Clone(r.answer(id, wire.CtlRETRY)))
	}},
	"rst_token": {do: func(r *dropRig) {
		m := wire.Reset{ConnID: r.connect().mine, Token: [wire.ResetTokenLen]byte{1}}
		r.control(wire.CtlRST, m.Append(nil)...)
	}},
	"state": {do: func(r *dropRig) {
		c := r.connect()
		f := c.next
		f.Operations = false
		r.send(c.from, f, controlOf(wire.CtlREPACK))
	}},
	"duplicate": {do: func(r *dropRig) {
		c := r.connect()
		c.send(aWrite, same)
		c.send(aWrite, same)
	}},
	"old": {do: func(r *dropRig) {
		c := r.connect()
		c.send(aWrite, func(f *wire.BaseFields) { f.Number += 2 * wire.MaxNumbers })
		c.send(aWrite, same)
	}},
	"ack_range": {do: func(r *dropRig) {
		c := r.connect()
		f := c.next
		f.Operations, f.Flags = false, wire.FlagAck
		unsent := wire.Ack{Largest: 0xf0000000, N: 1} // numbers begin below 2^31
		r.send(c.from, f, unsent.Append(nil))
	}},
	"op_space":   {do: func(r *dropRig) { r.connect().send(wire.Op{Opcode: wire.OpTerm}, same) }},
	"no_receive": {do: func(r *dropRig) { r.connect().send(wire.Op{Opcode: wire.OpSend}, same) }},
	"token": {do: func(r *dropRig) {
		c := r.connect()
		body := make([]byte, wire.MaxOpHeader+8)
		n := wire.PutOp(body, &wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast, Length: 8, Token: 77})
		r.send(c.from, c.next, body[:n+8])
	}},
	"hold_full": {mtu: 65535, do: func(r *dropRig) {
		c := r.connect()
		for limit := time.Now().Add(dropPatience); r.count("hold_full") == 0 && time.Now().Before(limit); { // a busy machine loses some packets
			c.ahead(600, 40000) // 512 of them may wait, in 64 KiB each: half of the memory
		}
	}},
	"wrong_queue": {datapath: nd.DatapathNative, queues: 2, do: func(r *dropRig) {
		r.adapter.Stall(func() { // the second engine cannot forward packets to the stalled engine
			for range 64 {
				s := r.socket(0) // each port leads to a queue of its own
				for range 32 {
					_, err := s.WriteToUDPAddrPort(append([]byte{wire.Version << 4}, make([]byte, 99)...), r.here)
					r.must(err)
				}
			}
			for limit := time.Now().Add(dropPatience); r.adapter.Relayed() <= 256 && time.Now().Before(limit); { // this many may wait
				runtime.Gosched()
			}
		})
	}},
	"rx_ring_full": {datapath: nd.DatapathGeneric, do: func(r *dropRig) {
		// Each round adds frames to the fill ring, until it has more frames than the receive ring has entries.
		for seen, i := uint64(0), 0; i < 6 && r.count("rx_ring_full") == 0; i++ {
			r.adapter.Stall(func() {
				for range 9000 {
					r.raw(stranger, make([]byte, 8))
				}
			})
			r.eventually("the engine runs again", func() bool { return r.count("not_nd") > seen })
			seen = r.count("not_nd")
		}
	}},
	"fill_ring_empty": {datapath: nd.DatapathGeneric, mtu: 65535, do: func(r *dropRig) {
		r.adapter.Stall(func() { // the fill ring gets no frames, and a packet takes 17 frames of 2048 bytes
			for range 200 {
				r.raw(stranger, make([]byte, 60000))
			}
		})
	}},
	"rx_dropped": {datapath: nd.DatapathUDP, mtu: 65535, do: func(r *dropRig) {
		r.adapter.Stall(func() {
			for range 2500 { // the buffer has 64 MiB
				r.raw(stranger, make([]byte, 60000))
			}
		})
	}},
	"port_taken": {datapath: nd.DatapathUDP, do: func(r *dropRig) {
		r.occupy(stranger) // the source port of answers to unknown hosts
		r.ask(7)
	}},
	"no_descriptors": {datapath: nd.DatapathUDP, do: func(r *dropRig) {
		const reason, id = "no_descriptors", 1
		r.listen(8, 1)
		r.socket(wire.SourcePort(id)) // the source port of the peer, which is in this process as well
		nd.WithoutDescriptors(r.T, func() {
			r.askAs(id, 8, nil)
			r.eventually(reason, func() bool { return r.count(reason) > 0 })
		})
		if n := r.count("address") + r.count("port_taken"); r.count(reason) != 1 || n != 0 {
			r.Errorf("one request is counted %v times, and %v times for other reasons", r.count(reason), n)
		}
		r.askAs(id, 8, nil)
		r.answer(id, wire.CtlPEND)
	}},
	"icmp_malformed": {do: func(r *dropRig) { r.unreachable(16, 1, nil) }}, // a code without a meaning
	"icmp_unmatched": {do: func(r *dropRig) { r.unreachable(1, 1, nil) }},  // host unreachable
	"icmp_excess": {do: func(r *dropRig) {
		for range 5 { // the socket's buffer holds some 50, and 100 are processed in a second
			r.unreachable(1, 1000, make([]byte, 500))
		}
	}},
	"too_long": {datapath: nd.DatapathUDP, do: answerTooLong},
	"tx_lost":  {datapath: nd.DatapathUDP, do: answerTooLong},
}

// answerTooLong causes an acknowledgement of 84 bytes, with IP and UDP headers, on an interface with an MTU of 80.
func answerTooLong(r *dropRig) {
	c := r.connect()
	r.must(r.pair.A.Do(func() error {
		link, err := netlink.LinkByName(r.pair.NameA)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 80)
	}))
	c.send(aWrite, func(f *wire.BaseFields) { f.Flags |= wire.FlagAckReq })
}

// neverDropped has the reasons that no packet from outside can cause.
var neverDropped = map[string]string{
	"no_socket":  "a queue that comes ends the adapter; internal/datapath shows the count (TestPacketsVanish)",
	"vanished":   "nothing is opened where the kernel loses packets on the way to a socket; internal/datapath shows the count (TestPacketsVanish)",
	"tx_invalid": "packets of more frames than a socket takes, which the engine never makes: a fault of ours",
}

// TestEveryDropReasonIsCounted provokes every drop reason, and reads its counter from Stats. Package ndmetrics has a metric for each reason.
func TestEveryDropReasonIsCounted(t *testing.T) {
	reasons := nd.DropReasons()
	for reason := range dropProvocations {
		if !slices.Contains(reasons, reason) {
			t.Errorf("%s is provoked and is no reason", reason)
		}
	}
	for _, reason := range reasons {
		p, ok := dropProvocations[reason]
		if _, never := neverDropped[reason]; never == ok {
			t.Errorf("%s: provoked %t, cannot happen %t", reason, ok, never)
		}
		if !ok {
			continue
		}
		t.Run(reason, func(t *testing.T) {
			r := newDropRig(t, p.datapath, p.mtu, p.queues)
			if n := r.count(reason); n != 0 {
				t.Fatalf("%v at first", n)
			}
			p.do(r)
			r.eventually(reason, func() bool { return r.count(reason) > 0 })
		})
	}
}
