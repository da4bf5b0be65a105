package nd_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/wire"
)

// dropPatience bounds every wait for a packet or a counter.
const dropPatience = time.Minute

// dropRig is an adapter, and a peer that sends arbitrary packets from plain sockets in another namespace.
type dropRig struct {
	*testing.T
	pair    *netlab.Pair
	adapter *nd.Adapter
	here    netip.AddrPort // the adapter's UDP endpoint
	peer    netip.Addr
	inbox   *net.UDPConn // the socket that receives the adapter's answers
	out     map[uint16]*net.UDPConn
	cq      *nd.CompletionQueue
	srq     *nd.SharedReceiveQueue // empty
	made    uint64                 // connections requested so far
}

func newDropRig(t *testing.T, datapath nd.Datapath, mtu, queues int) *dropRig {
	t.Helper()
	r := &dropRig{T: t, out: map[uint16]*net.UDPConn{}}
	r.pair = netlabtest.Pair(t, netlab.PairConfig{MTU: mtu, Queues: queues, StaticNeighbours: true})
	r.here = netip.AddrPortFrom(r.pair.AddrA.Addr(), nd.DefaultUDPPort)
	r.peer = r.pair.AddrB.Addr()
	r.must(r.pair.A.Do(func() (err error) {
		r.adapter, err = nd.OpenAdapter(nd.AdapterConfig{Address: r.here.Addr(), Datapath: datapath})
		return err
	}))
	t.Cleanup(func() { r.must(r.adapter.Close()) })
	r.inbox = r.socket(nd.DefaultUDPPort)
	var err error
	r.cq, err = r.adapter.CreateCompletionQueue(64)
	r.must(err)
	r.srq, err = r.adapter.CreateSharedReceiveQueue(4, 1, 0)
	r.must(err)
	return r
}

func (r *dropRig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// eventually waits for an effect of the adapter or the kernel.
func (r *dropRig) eventually(what string, done func() bool) {
	r.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(dropPatience); !done(); {
		select {
		case <-tick.C:
		case <-limit:
			r.Fatalf("%s: not within %v: %v", what, dropPatience, r.adapter.Stats().Drops)
		}
	}
}

// occupy binds a UDP port of the adapter's address.
func (r *dropRig) occupy(port uint16) {
	r.Helper()
	r.must(r.pair.A.Do(func() error {
		s, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.here.Addr(), port)))
		if err == nil {
			r.Cleanup(func() { s.Close() })
		}
		return err
	}))
}

// count returns how many packets the adapter dropped for a reason.
func (r *dropRig) count(reason string) uint64 {
	r.Helper()
	if !slices.Contains(nd.DropReasons(), reason) {
		r.Fatalf("%s is no reason", reason)
	}
	return r.adapter.Stats().Drops[reason]
}

// socket returns the peer's socket on a port; 0 makes a new one on any port.
func (r *dropRig) socket(port uint16) *net.UDPConn {
	r.Helper()
	if s := r.out[port]; s != nil && port != 0 {
		return s
	}
	var s *net.UDPConn
	r.must(r.pair.B.Do(func() (err error) {
		s, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.peer, port)))
		return err
	}))
	r.Cleanup(func() { s.Close() })
	r.out[port] = s
	return s
}

// raw sends bytes as they are.
func (r *dropRig) raw(from uint16, b []byte) {
	r.Helper()
	_, err := r.socket(from).WriteToUDPAddrPort(b, r.here)
	r.must(err)
}

// unreachable sends n ICMP errors "destination unreachable". The errors quote a datagram from the adapter to the peer that was
// never sent.
func (r *dropRig) unreachable(code byte, n int, payload []byte) {
	r.Helper()
	from := netip.AddrPortFrom(r.here.Addr(), stranger)
	sendErrors(r.T, r.pair.B, from.Addr(), icmpError(code, from, netip.AddrPortFrom(r.peer, nd.DefaultUDPPort), payload), n)
}

// icmpError is an ICMP error "destination unreachable" that quotes a UDP datagram over IPv4.
func icmpError(code byte, from, to netip.AddrPort, payload []byte) []byte {
	b := []byte{3, code, 0, 0, 0, 0, 0, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0}
	b = append(append(b, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, from.Port()), to.Port())
	b = append(append(b, byte((8+len(payload))>>8), byte(8+len(payload)), 0, 0), payload...)
	binary.BigEndian.PutUint16(b[2:], ^uint16(wire.PartialSum(0, b)))
	return b
}

// sendErrors sends an ICMP message n times from a namespace.
func sendErrors(t *testing.T, ns *netlab.Namespace, to netip.Addr, message []byte, n int) {
	t.Helper()
	err := ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		for range n {
			err = errors.Join(err, unix.Sendto(fd, message, 0, &unix.SockaddrInet4{Addr: to.As4()}))
		}
		return errors.Join(err, unix.Close(fd))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// send sends a packet with a valid checksum.
func (r *dropRig) send(from uint16, f wire.BaseFields, body []byte) {
	r.Helper()
	b := make([]byte, wire.BaseHeaderLen, wire.BaseHeaderLen+len(body))
	wire.PutBaseHeader(b, &f)
	b = append(b, body...)
	wire.PutCRC(b, wire.SumFirst(f.Number, f.Message, b))
	r.raw(from, b)
}

// stranger is the source port of packets outside connections.
var stranger = wire.SourcePort(0)

// control sends a control message outside connections.
func (r *dropRig) control(op wire.Opcode, body ...byte) {
	r.Helper()
	r.send(stranger, wire.BaseFields{}, controlOf(op, body...))
}

func controlOf(op wire.Opcode, body ...byte) []byte {
	b := make([]byte, wire.ControlHeaderLen)
	wire.PutControl(b, op, 0, len(body))
	return append(b, body...)
}

// ask sends a REQ for a new connection to an ND port, and returns the connection's id.
func (r *dropRig) ask(port uint16) uint64 {
	r.Helper()
	r.made++
	id := r.made
	r.askAs(id, port, nil)
	return id
}

func (r *dropRig) askAs(id uint64, port uint16, cookie []byte) {
	r.Helper()
	h := wire.Hello{
		ConnID: id, Nonce: id, SrcPort: uint16(20000 + id), DstPort: port, UDPPort: nd.DefaultUDPPort, MinVersion: wire.Version, MaxVersion: wire.Version,
		IRD: 1, ORD: 1, Window: 256, MaxPacket: wire.MinPacket, ReceiveLimit: 100, Cookie: cookie,
	}
	body := controlOf(wire.CtlREQ, h.Append(nil)...)
	r.send(wire.SourcePort(id), wire.BaseFields{}, append(body, make([]byte, wire.MinPacket-wire.BaseHeaderLen-len(body))...))
}

// answer waits for a control message of the adapter to a connection of the peer.
func (r *dropRig) answer(id uint64, op wire.Opcode) []byte {
	r.Helper()
	r.must(r.inbox.SetReadDeadline(time.Now().Add(dropPatience)))
	b := make([]byte, 1<<16)
	for {
		n, err := r.inbox.Read(b)
		if err != nil {
			r.Fatalf("no %s: %v", op, err)
		}
		h, d := wire.ParseBaseHeader(b[:n])
		if d != wire.DropNone || h.ConnID() != id || !h.Control() {
			continue
		}
		at, d := wire.ContentOffset(b[:n])
		if d != wire.DropNone {
			continue
		}
		if msg, d := wire.ParseControl(b[:n], at, n); d == wire.DropNone && msg.Opcode == op {
			return msg.Body
		}
	}
}

// listen makes the adapter listen at a port.
func (r *dropRig) listen(port uint16, backlog int) *nd.Listener {
	r.Helper()
	l, err := r.adapter.CreateListener()
	r.must(err)
	r.must(l.Bind(netip.AddrPortFrom(r.here.Addr(), port)))
	r.must(l.Listen(backlog))
	return l
}

// dropConn is the peer's end of an open connection.
type dropConn struct {
	r    *dropRig
	from uint16
	mine uint64
	next wire.BaseFields // the packet that the adapter expects
}

// connect opens a connection to the adapter.
func (r *dropRig) connect() *dropConn {
	r.Helper()
	const port = 9
	l := r.listen(port, 0)
	ctr, err := r.adapter.CreateConnector()
	r.must(err)
	qp, err := r.adapter.CreateQueuePairWithSRQ(r.srq, nd.QueuePairConfig{
		ReceiveCQ: r.cq, InitiatorCQ: r.cq, InitiatorDepth: 4, MaxInitiatorSGE: 1,
	})
	r.must(err)
	id := r.ask(port)
	r.must(l.GetConnectionRequest(r.Context(), ctr))
	accepted := make(chan error, 1)
	go func() {
		accepted <- ctr.Accept(r.Context(), qp, nd.ConnectParams{InboundReadLimit: 1, OutboundReadLimit: 1})
	}()
	var h wire.Hello
	if d := wire.ParseHello(r.answer(id, wire.CtlREP), &h); d != wire.DropNone {
		r.Fatal(d)
	}
	c := &dropConn{r: r, from: wire.SourcePort(id), mine: id, next: wire.BaseFields{ConnID: h.ConnID}}
	r.send(c.from, c.next, controlOf(wire.CtlRTU, 0, 0, 0, 0))
	r.must(<-accepted)
	c.next.Operations = true
	return c
}

// send sends an operation without payload, in the next packet. change may modify the packet's header.
func (c *dropConn) send(op wire.Op, change func(*wire.BaseFields)) {
	c.r.Helper()
	b := make([]byte, wire.MaxOpHeader)
	op.Flags = wire.OpLast
	n := wire.PutOp(b, &op)
	f := c.next
	change(&f)
	c.r.send(c.from, f, b[:n])
}

// ahead leaves a gap, and sends packets of this many payload bytes behind it.
func (c *dropConn) ahead(packets, payload int) {
	c.r.Helper()
	b := make([]byte, wire.MaxOpHeader+payload)
	n := wire.PutOp(b, &wire.Op{Opcode: wire.OpWrite, Flags: wire.OpLast, Length: uint16(payload)})
	for i := range packets {
		f := c.next
		f.Message += uint32(1 + i)
		c.r.send(c.from, f, b[:n+payload])
	}
}
