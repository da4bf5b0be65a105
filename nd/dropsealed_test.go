package nd_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/wire"
)

// sealedProvocations are drop reasons of encrypted connections. Each change makes another packet of one that the adapter has accepted.
var sealedProvocations = map[string]func(packet []byte){
	"replay": func([]byte) {},
	"tag": func(b []byte) { // a number that was not used
		binary.BigEndian.PutUint32(b[4:], binary.BigEndian.Uint32(b[4:])+1000)
	},
	"generation": func(b []byte) { binary.BigEndian.PutUint32(b[20:], 99) },
	"plain": func(b []byte) {
		h := wire.BaseHeader(b[:wire.BaseHeaderLen])
		f := wire.BaseFields{Operations: true, ConnID: h.ConnID(), Number: uint64(h.Number()) + 1000, Message: uint32(h.Message())}
		clear(b)
		wire.PutBaseHeader(b, &f)
		wire.PutOp(b[wire.BaseHeaderLen:], &aWrite)
		wire.PutCRC(b, wire.SumFirst(f.Number, f.Message, b))
	},
}

func init() {
	for reason, change := range sealedProvocations {
		dropProvocations[reason] = provocation{do: func(r *dropRig) { r.change(change) }}
	}
	dropProvocations["sealed"] = provocation{do: func(r *dropRig) {
		b := make([]byte, 100)
		wire.PutBaseHeader(b, &wire.BaseFields{Flags: wire.FlagSecure})
		r.raw(stranger, b)
	}}
	// Two first messages of one handshake that differ. They have the end of a ClientHello, so that TLS waits for its beginning.
	dropProvocations["shake"] = provocation{do: func(r *dropRig) {
		_, listener := testhelp.NewAuthority(r.T).Mutual()
		l, err := r.adapter.CreateListener()
		r.must(err)
		r.must(l.UseTLS(listener, nd.TLSRequired))
		r.must(l.Bind(netip.AddrPortFrom(r.here.Addr(), 8)))
		r.must(l.Listen(0))
		for window := range uint32(2) {
			h := wire.Hello{
				ConnID: 1, Nonce: 1, SrcPort: 20001, DstPort: 8, UDPPort: nd.DefaultUDPPort, MinVersion: wire.Version, MaxVersion: wire.Version,
				Features: wire.FeatureSecure, Window: 256 + window, MaxPacket: wire.MinPacket, Fragment: wire.HelloFragment{Offset: 900, Total: 1000, Bytes: make([]byte, 100)},
			}
			body := controlOf(wire.CtlREQ, h.Append(nil)...)
			r.send(wire.SourcePort(1), wire.BaseFields{}, append(body, make([]byte, wire.MinPacket-wire.BaseHeaderLen-len(body))...))
		}
	}}
}

// Lengths of the headers in front of a packet in a captured frame.
const (
	etherLen = 14
	ipLen    = 20
	udpLen   = 8
)

// change makes an encrypted connection from the peer's namespace to the adapter. It then sends a packet that the adapter has received once
// more, changed.
func (r *dropRig) change(change func(packet []byte)) {
	r.Helper()
	r.must(r.inbox.Close()) // the adapter of the peer gets its port
	dialer, listener := testhelp.NewAuthority(r.T).Mutual()
	dialer.ServerName = "node7"
	ctx, cancel := context.WithTimeout(r.Context(), dropPatience)
	defer cancel()
	l, err := nd.Listen(netip.AddrPortFrom(r.here.Addr(), 0), nd.EndpointConfig{Adapter: r.adapter, TLS: listener})
	r.must(err)
	r.Cleanup(func() { r.must(l.Close()) })
	capture, err := r.adapter.StartCapture(nd.CaptureConfig{})
	r.must(err)
	r.Cleanup(capture.Stop)
	var peer *nd.Adapter
	r.must(r.pair.B.Do(func() (err error) {
		peer, err = nd.OpenAdapter(nd.AdapterConfig{Address: r.peer, Datapath: nd.DatapathGeneric})
		return err
	}))
	r.Cleanup(func() { r.must(peer.Close()) })
	at, err := l.Address()
	r.must(err)
	accepted := make(chan error, 1)
	go func() {
		e, err := l.Accept(ctx)
		if err == nil {
			_, err = e.Receive(ctx, make([]byte, 100))
		}
		accepted <- err
	}()
	e, err := nd.Dial(ctx, at, nd.EndpointConfig{Adapter: peer, TLS: dialer})
	r.must(err)
	r.must(e.Send(ctx, []byte("a message")))
	r.must(<-accepted)
	for {
		var p nd.CapturedPacket
		r.must(capture.Next(&p))
		b := p.Frame[min(len(p.Frame), etherLen+ipLen+udpLen):]
		h, d := wire.ParseBaseHeader(b)
		if p.Sent || p.Drop != "" || d != wire.DropNone || !h.Secure() || h.Control() || p.State != "open" {
			continue
		}
		frame := append([]byte(nil), p.Frame...)
		change(frame[etherLen+ipLen+udpLen:])
		binary.BigEndian.PutUint16(frame[etherLen+ipLen+6:], 0) // without a checksum of UDP
		r.inject(frame[etherLen:])
		return
	}
}

// inject sends an IP packet from the peer's namespace.
func (r *dropRig) inject(packet []byte) {
	r.Helper()
	r.must(r.pair.B.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		return errors.Join(unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: r.here.Addr().As4()}), unix.Close(fd))
	}))
}
