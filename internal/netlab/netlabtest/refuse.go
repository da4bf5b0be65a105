package netlabtest

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/wire"
)

// RefuseAsExisting answers each connection request to a UDP endpoint with REJ(exists), until the test ends. A host does this if it
// has a connection between the same ND endpoints (PROTOCOL §7.2).
func RefuseAsExisting(t testing.TB, ns *netlab.Namespace, at netip.AddrPort) {
	t.Helper()
	var s *net.UDPConn
	err := ns.Do(func() (err error) {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for limit := time.After(time.Minute); ; {
			// A process that another test starts inherits this process's sockets, even closed ones, until its exec.
			if s, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)); !errors.Is(err, syscall.EADDRINUSE) {
				return err
			}
			select {
			case <-tick.C:
			case <-limit:
				return err
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = s.Close(); <-done })
	go func() {
		defer close(done)
		b := make([]byte, wire.MaxPacket)
		for {
			n, from, err := s.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if answer, port := refusal(b[:n]); answer != nil {
				_, _ = s.WriteToUDPAddrPort(answer, netip.AddrPortFrom(from.Addr(), port)) // the request will be repeated
			}
		}
	}()
}

// refusal returns the REJ that answers a packet, and its destination port. rej is nil if the packet is not a REQ.
func refusal(packet []byte) (rej []byte, port uint16) {
	h, d := wire.ParseBaseHeader(packet)
	if d != wire.DropNone || h.ConnID() != 0 || !h.Control() {
		return nil, 0
	}
	msg, d := wire.ParseControl(packet, wire.ControlOffset, len(packet))
	var hello wire.Hello
	if d != wire.DropNone || msg.Opcode != wire.CtlREQ || wire.ParseHello(msg.Body, &hello) != wire.DropNone {
		return nil, 0
	}
	body := (&wire.Reject{Reason: wire.RejectExists}).Append(nil)
	rej = make([]byte, wire.ControlOffset+wire.ControlHeaderLen, wire.ControlOffset+wire.ControlHeaderLen+len(body))
	wire.PutBaseHeader(rej, &wire.BaseFields{ConnID: hello.ConnID})
	wire.PutControl(rej[wire.ControlOffset:], wire.CtlREJ, 0, len(body))
	rej = append(rej, body...)
	wire.PutCRC(rej, wire.SumFirst(0, 0, rej))
	return rej, hello.UDPPort
}
