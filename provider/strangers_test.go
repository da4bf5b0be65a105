package provider

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/wire"
)

// reception is the handling of packets without a connection, without an engine, and a listener.
type reception struct {
	strangers
	directory directory
	stats     Stats
	l         Listener
	now       clock.Time
}

func newReception() *reception {
	r := &reception{directory: newDirectory(ndports.Alone{}), now: clock.Time(time.Hour), l: Listener{backlog: 8, active: true}}
	r.strangers = newStrangers(rand.New(rand.NewPCG(1, 2)), guard.NewResetTokens(&[32]byte{1}), &r.directory, &r.stats, wire.DefaultPort, ndports.Alone{})
	r.directory.listeners[addrPort{IP: pairIP[1], Port: pairPort}] = &r.l
	return r
}

// ask passes a REQ of an unknown host to the reception, and returns the verdict.
func (r *reception) ask(change func(*wire.Hello)) verdict {
	h := wire.Hello{
		ConnID: 77, SrcPort: 50000, DstPort: pairPort, UDPPort: wire.DefaultPort, MinVersion: wire.Version, MaxVersion: wire.Version, MaxPacket: wire.MinPacket, Window: 1,
	}
	change(&h)
	msg := wire.Control{Opcode: wire.CtlREQ, Body: h.Append(nil)}
	return r.judge(unknownSender(), &msg, &wire.Hello{}, r.now)
}

func unknownSender() *RxPacket {
	return &RxPacket{From: wire.Endpoint{IP: pairIP[0], Port: 40000}, To: wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort}}
}

// A REQ goes to the listener, to the connection made by the same REQ, or to the connection with its ND endpoints. Otherwise it is
// rejected with a reason.
func TestStrangersRequests(t *testing.T) {
	plain := func(*wire.Hello) {}
	ours := identityOf(78)
	for name, c := range map[string]struct {
		before func(r *reception)
		change func(h *wire.Hello)
		want   verdict
		reason wire.RejectReason
	}{
		"taken":        {func(*reception) {}, plain, verdict{listener: &Listener{}}, 0},
		"nobody":       {func(*reception) {}, func(h *wire.Hello) { h.DstPort++ }, verdict{drop: wire.DropNoListener, answer: wire.CtlREJ}, wire.RejectNoListener},
		"paused":       {func(r *reception) { r.l.paused = true }, plain, verdict{drop: wire.DropNoListener, answer: wire.CtlREJ}, wire.RejectNoListener},
		"version":      {func(*reception) {}, func(h *wire.Hello) { h.MinVersion++; h.MaxVersion++ }, verdict{drop: wire.DropVersion, answer: wire.CtlREJ}, wire.RejectVersion},
		"unusable":     {func(*reception) {}, func(h *wire.Hello) { h.MaxPacket = wire.MinPacket - 1 }, verdict{drop: wire.DropAddress}, 0},
		"comes again":  {func(r *reception) { r.directory.peers.Add(ours) }, func(h *wire.Hello) { h.ConnID = 78 }, verdict{known: ours}, 0},
		"has a rival":  {func(r *reception) { r.directory.tuples.Add(ours) }, plain, verdict{rival: ours}, 0},
		"half a queue": {func(r *reception) { r.l.queue = make([]*conn, 5) }, plain, verdict{answer: wire.CtlRETRY}, 0},
		"source is full": {func(r *reception) {
			for range guard.MaxSourceConns {
				r.Sources.Move(guard.SourceOf(pairIP[0]), guard.ShareNone, guard.ShareEstablished)
			}
		}, plain, verdict{answer: wire.CtlRETRY}, 0},
		"too many REJs": {func(r *reception) {
			for r.TakeReject(guard.SourceOf(pairIP[0]), r.now) {
			}
		}, func(h *wire.Hello) { h.DstPort++ }, verdict{drop: wire.DropRate}, 0},
	} {
		r := newReception()
		c.before(r)
		v := r.ask(c.change)
		if v.drop != c.want.drop || v.answer != c.want.answer || v.known != c.want.known || v.rival != c.want.rival || (v.listener != nil) != (c.want.listener != nil) {
			t.Errorf("%s: %+v", name, v)
			continue
		}
		var m wire.Reject
		if v.answer == wire.CtlREJ && (wire.ParseReject(v.body, &m) != wire.DropNone || m.Reason != c.reason || v.id != 77) {
			t.Errorf("%s: rejected with %v to %d", name, m.Reason, v.id)
		}
	}
}

// A REQ with a valid cookie passes the demand for a cookie, but not the limit of the backlog.
func TestStrangersCookies(t *testing.T) {
	r := newReception()
	r.l.queue = make([]*conn, 5)
	v := r.ask(func(*wire.Hello) {})
	cookie, d := wire.ParseCookie(v.body)
	if v.answer != wire.CtlRETRY || d != wire.DropNone {
		t.Fatalf("%+v, %v", v, d)
	}
	cookie = append([]byte(nil), cookie...)
	with := func(h *wire.Hello) { h.Cookie = cookie }
	if v := r.ask(with); v.listener != &r.l || !v.proven {
		t.Errorf("%+v", v)
	}
	r.l.queue = make([]*conn, 8)
	if v := r.ask(with); v.answer != wire.CtlREJ || v.drop != wire.DropBacklog {
		t.Errorf("beyond the backlog: %+v", v)
	}
	cookie[0] ^= 1
	if v := r.ask(with); v.answer != wire.CtlRETRY || r.stats.CookiesRefused != 1 || r.stats.CookiesSent != 2 {
		t.Errorf("a made-up cookie: %+v, %+v", v, r.stats)
	}
}

// An RST with the right token ends the connection. An RST with another token goes to the connection, which ignores it because it
// demanded no proof.
func TestStrangersResets(t *testing.T) {
	r, c := newReception(), identityOf(78)
	c.identity.peerToken[3], c.end = 9, &notEnding
	r.directory.peers.Add(c)
	ask := func(m wire.Reset) verdict {
		return r.judge(unknownSender(), &wire.Control{Opcode: wire.CtlRST, Body: m.Append(nil)}, &wire.Hello{}, r.now)
	}
	if v := ask(wire.Reset{ConnID: 78, Token: c.identity.peerToken}); v.drop != wire.DropNone || v.known != c {
		t.Errorf("right: %+v", v)
	}
	if v := ask(wire.Reset{ConnID: 79, Token: c.identity.peerToken}); v.drop != wire.DropUnknownConn || v.known != nil {
		t.Errorf("no connection: %+v", v)
	}
	if v := ask(wire.Reset{ConnID: 78}); v.known != c || v.do(c) != wire.DropRSTToken {
		t.Errorf("wrong token: %+v", v)
	}
}

// identityOf is the directory's view of a connection with the unknown host, with this connection id of the peer.
func identityOf(peerID uint64) *conn {
	c := &conn{}
	c.identity.peerID, c.identity.peerN, c.identity.localND = peerID, 50000, pairPort
	c.identity.remote.IP, c.identity.local.IP = pairIP[0], pairIP[1]
	return c
}
