package datapath

import (
	"errors"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/icmp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// unreachable takes ICMP errors about requests to connect, and about packets to ports that nobody holds any more, to the engine that sent them
// (PROTOCOL §7.7), and counts all others. Over AF_XDP they come from a raw socket, over plain sockets from the sockets that sent the packets.
type unreachable struct {
	malformed atomic.Uint64 // cut short, damaged, or not about whether a peer can be reached
	unmatched atomic.Uint64 // quote neither a request that waits for an answer nor a recent packet of a connection
}

// meaning is the outcome of an attempt whose request is quoted. Nobody having the UDP port means that no adapter is open there: it is
// a listener that is missing, and not a peer that is silent.
var meaning = [...]provider.Outcome{
	icmp.Network: provider.OutcomeNetworkUnreachable, icmp.Host: provider.OutcomeHostUnreachable, icmp.Port: provider.OutcomeRefused,
	icmp.TooBig: provider.OutcomePathTooSmall, // requests are as large as every path must carry, and no larger
}

// tell is called by the leading engine's owner. It reports whether the error is believed.
func (u *unreachable) tell(lead *provider.Engine, e *icmp.Error) bool {
	switch {
	case e.Kind == icmp.None:
		u.malformed.Add(1)
	case !lead.Unreachable(&provider.Quote{Sender: e.Sender, From: e.From, To: e.To, Packet: e.Quoted}, meaning[e.Kind]):
		u.unmatched.Add(1)
	default:
		return true
	}
	return false
}

// addTo adds the counters to a device's.
func (u *unreachable) addTo(s *Stats) {
	s.ICMPMalformed, s.ICMPUnmatched = u.malformed.Load(), u.unmatched.Load()
}

// listenForErrors opens the raw socket. Without the privilege, which a broker's client mostly lacks, there is none: then a request that
// nobody gets times out.
func (d *Datapath) listenForErrors() (err error) {
	d.icmp, err = icmp.Open(d.cfg.Address, d.wellKnown)
	if errors.Is(err, icmp.ErrNotAllowed) {
		return nil
	}
	return err
}

// receiveErrors takes errors until Close.
func (d *Datapath) receiveErrors(own own) {
	d.icmp.Each(
		func(e icmp.Error) {
			own(0, func(lead *provider.Engine) { d.unreachable.tell(lead, &e) })
		},
		func() { d.unreachable.malformed.Add(1) },
	)
}

// errorsAtOnce is how many errors of a socket are looked at: more than there is room for, so that whoever sends them faster than they are
// read holds up nobody.
const errorsAtOnce = 32

// longestQuote is more of an ND packet than what tells a request from others (PROTOCOL §7.7).
const longestQuote = 128

// receiveErrors takes errors to the engine until Close.
func (d *plainUDP) receiveErrors(own own) {
	for {
		ports, err := d.errors.Wait()
		if err != nil {
			return
		}
		for _, port := range ports {
			own(0, func(lead *provider.Engine) { d.readErrors(lead, port) })
		}
	}
}

// readErrors takes what is said about a source port to the engine. After an error that is not believed, no more is heard at that port: its
// connection may carry data, for which every error costs a send. The connection hears again at its next port, which it takes when nothing
// answers (PROTOCOL §6.1).
func (d *plainUDP) readErrors(lead *provider.Engine, port uint16) {
	from := d.sources.at(port)
	if from == nil { // closed meanwhile
		return
	}
	var buf [longestQuote]byte
	believed := true
	for range errorsAtOnce {
		sent, ok := from.socket.ReadError(buf[:])
		if !ok {
			break
		}
		believed = d.unreachable.tell(lead, &icmp.Error{
			Kind: icmp.KindOf(sent.Type, sent.Code, d.local.Is4()), Sender: sent.Sender,
			From: wire.Endpoint{IP: d.local.IP, Port: port}, To: wire.Endpoint{IP: sent.IP, Port: sent.Port}, Quoted: sent.Quoted,
		}) && believed
	}
	if believed {
		return
	}
	_ = from.socket.TellErrors(nil, port) // if that fails, errors go on to cost what they cost
}
