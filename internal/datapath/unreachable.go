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

// unreachable passes ICMP errors to the engine that sent the quoted packets (PROTOCOL §7.7): errors about requests to connect, and about
// packets to ports that no process holds. It counts all other errors. Over AF_XDP they come from a raw socket, over plain sockets from
// the sockets that sent the packets. A broker's client has plain sockets for the source ports of its packets.
type unreachable struct {
	malformed atomic.Uint64 // incomplete or damaged errors, and errors that do not say whether a peer can be reached
	unmatched atomic.Uint64 // errors that quote neither a request that waits for an answer nor a recent packet of a connection
}

// meaning is the outcome of an attempt if an error quotes its request. If no process has the UDP port, no adapter is open there. This is
// a missing listener, and not a silent peer.
var meaning = [...]provider.Outcome{
	icmp.Network: provider.OutcomeNetworkUnreachable, icmp.Host: provider.OutcomeHostUnreachable, icmp.Port: provider.OutcomeRefused,
	icmp.TooBig: provider.OutcomePathTooSmall, // a request is exactly as large as every path must carry
}

// tell passes an error to the engine. The leading engine's owner calls it. It reports whether the error was accepted.
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

// addTo adds the counters to the counters of a device.
func (u *unreachable) addTo(s *Stats) {
	s.ICMPMalformed, s.ICMPUnmatched = u.malformed.Load(), u.unmatched.Load()
}

// listenForErrors opens the raw socket. A broker's client usually lacks the privilege. It receives errors on a plain socket for each
// source port, which sends nothing.
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

// A broker's client receives errors about at most maxHeard source ports, and for at most a quarter of the process's descriptors. Further
// connections detect the end of a peer only by its silence.
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

// receiveErrors receives errors until Close.
func (d *xdpDevice) receiveErrors(own follow.Own) {
	d.icmp.Each(
		func(e icmp.Error) {
			own(0, func(lead *provider.Engine) { d.unreachable.tell(lead, &e) })
		},
		func() { d.unreachable.malformed.Add(1) },
	)
}

// errorsAtOnce is the number of errors of a socket that are read at once. It exceeds the socket's room, so that a fast sender of errors
// delays no other socket.
const errorsAtOnce = 32

// longestQuote is the length that is read of a quoted ND packet. It exceeds what distinguishes a request from others (PROTOCOL §7.7).
const longestQuote = 128

// errorQueues receives ICMP errors about packets from source ports, from the error queues of the sockets that have these ports.
type errorQueues struct {
	sources     *sources
	local       wire.Endpoint // the port is not used
	unreachable *unreachable
	ended       *sync.WaitGroup // counts the receiving goroutine
	own         follow.Own      // set before the first path is made

	mu      sync.Mutex   // for owners of several ports
	watcher *udp.Watcher // nil until the first socket is watched
}

// hear makes the socket of a source port report errors. The first call starts the receiving goroutine. If that fails, a peer that has
// ended is detected only by its silence.
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

// close ends receive. The engines must have stopped.
func (q *errorQueues) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watcher == nil {
		return nil
	}
	return q.watcher.Close()
}

// receive passes errors to the engine until close.
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

// read passes the errors about a source port to the engine. After an error that is not accepted, errors about this port are not received
// any more: its connection may carry data, and each queued error makes a send fail. The connection receives errors again on its next
// port, which it takes when nothing answers (PROTOCOL §6.1).
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
	_ = from.socket.TellErrors(nil, port) // if this fails, each error still makes a send fail
}

// listenAt opens the source of errors about a source port for one more path, if the device has no raw socket. It returns nil, and
// receives no errors, for a port of another program and beyond mostHeard. The caller releases the source.
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
