package datapath

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/follow"
	"github.com/ndxdp/ndxdp/internal/icmp"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// unreachable takes ICMP errors about requests to connect, and about packets to ports that nobody holds any more, to the engine that sent them
// (PROTOCOL §7.7), and counts all others. Over AF_XDP they come from a raw socket, over plain sockets from the sockets that sent the packets.
// A broker's client has plain sockets for the source ports of its packets.
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

// listenForErrors opens the raw socket. A broker's client mostly lacks the privilege. It hears by a plain socket for each source port, which sends nothing.
func (d *xdpDevice) listenForErrors() (err error) {
	d.icmp, err = icmp.Open(d.cfg.Address, d.wellKnown)
	if !errors.Is(err, icmp.ErrNotAllowed) {
		return err
	}
	here := netip.AddrPortFrom(d.cfg.Address.Unmap(), d.cfg.UDPPort)
	d.heard = &errorQueues{local: wire.EndpointFrom(here), unreachable: &d.unreachable, ended: &d.follower.Running, sources: &sources{
		network: d.network, opened: map[uint16]*source{}, most: mostHeard(), cfg: udp.Config{Local: here, Scope: d.index, Device: d.resolver.VRF},
	}}
	return nil
}

// A broker's client hears errors about as many source ports as take a quarter of the process's descriptors, and no more than maxHeard. Further
// connections learn by silence alone that a peer is gone.
const (
	heardShare = 4
	maxHeard   = 1024
)

// mostHeard is the number of these ports.
func mostHeard() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return maxHeard
	}
	return int(min(limit.Cur/heardShare, maxHeard))
}

// receiveErrors takes errors until Close.
func (d *xdpDevice) receiveErrors(own follow.Own) {
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

// errorQueues hears ICMP errors about packets that left from source ports, by the error queues of the sockets that have these ports.
type errorQueues struct {
	sources     *sources
	local       wire.Endpoint // whose port is not used
	unreachable *unreachable
	ended       *sync.WaitGroup // counts the goroutine that receives
	own         follow.Own      // set before the first path is made

	mu      sync.Mutex   // of owners of several ports
	watcher *udp.Watcher // nil until the first port is heard
}

// hear has the socket of a source port tell of errors, and begins to receive with the first one. If that fails, only silence tells of a peer that is gone.
func (q *errorQueues) hear(from *source) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watcher == nil && q.own != nil {
		w, err := udp.NewWatcher()
		if err != nil {
			return
		}
		q.watcher = w
		q.ended.Go(func() { q.receive(w) })
	}
	if q.watcher != nil {
		_ = from.socket.TellErrors(q.watcher, from.port)
	}
}

// close ends receive. No engine runs any more.
func (q *errorQueues) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watcher == nil {
		return nil
	}
	return q.watcher.Close()
}

// receive takes errors to the engine until close.
func (q *errorQueues) receive(w *udp.Watcher) {
	for {
		ports, err := w.Wait()
		if err != nil {
			return
		}
		for _, port := range ports {
			q.own(0, func(lead *provider.Engine) { q.read(lead, port) })
		}
	}
}

// read takes what is said about a source port to the engine. After an error that is not believed, no more is heard at that port: its
// connection may carry data, for which every error costs a send. The connection hears again at its next port, which it takes when nothing
// answers (PROTOCOL §6.1).
func (q *errorQueues) read(lead *provider.Engine, port uint16) {
	from := q.sources.hold(port)
	if from == nil { // closed meanwhile
		return
	}
	defer q.sources.put(from)
	var buf [longestQuote]byte
	believed := true
	for range errorsAtOnce {
		sent, ok := from.socket.ReadError(buf[:])
		if !ok {
			break
		}
		believed = q.unreachable.tell(lead, &icmp.Error{
			Kind: icmp.KindOf(sent.Type, sent.Code, q.local.Is4()), Sender: sent.Sender,
			From: wire.Endpoint{IP: q.local.IP, Port: port}, To: wire.Endpoint{IP: sent.IP, Port: sent.Port}, Quoted: sent.Quoted,
		}) && believed
	}
	if believed {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = from.socket.TellErrors(nil, port) // if that fails, errors go on to cost what they cost
}

// listenAt hears errors about packets from a source port, for one more path, where the device has no raw socket. It returns nil, and hears nothing,
// for a port of another program and beyond mostHeard. The caller gives the source back.
func (d *xdpDevice) listenAt(port uint16) *source {
	if d.heard == nil || port == wire.SourcePort(0) || port == d.cfg.UDPPort {
		return nil
	}
	from, err := d.heard.sources.get(port, false)
	if err != nil {
		return nil
	}
	d.heard.hear(from)
	return from
}
