package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// controlContext is the queue pair context of the control channel. Data queue pairs count up from there. All completions of a
// session arrive at one completion queue, and the context identifies the queue pair.
const controlContext = 1

const (
	// sessionCQDepth holds the completions of the control queue pair and of one data queue pair at Spec's largest depth:
	// maxSpecDepth initiator requests and twice as many receives.
	sessionCQDepth = 16384
	maxSpecDepth   = 4096
	// readLimit is requested in both directions. The smaller of both sides' limits applies.
	readLimit = 16
	// spinCheck is the number of empty polls between two checks of the context.
	spinCheck = 1 << 12
)

// station is one side of a session: an adapter, one completion queue, and the control channel.
type station struct {
	adapter *nd.Adapter
	tls     TLS // of links that connect
	cq      *nd.CompletionQueue
	control *control
	event   bool // sleep in Notify instead of polling
	crowded bool // other sessions of this process poll, too

	res   [64]nd.Result
	stash []nd.Result // data completions that arrived while the control channel waited
	spins int

	moved  atomic.Uint64 // completed operations of the present test; read by another goroutine
	cut    atomic.Bool   // the present test must end, as if its time were over
	teller *teller       // reports progress; nil for none

	live uint64 // context of the present data queue pair, 0 for none; other completions are leftovers
	used uint64 // the last context in use
}

func newStation(a *nd.Adapter, how TLS) (*station, error) {
	cq, err := a.CreateCompletionQueue(sessionCQDepth)
	if err != nil {
		return nil, err
	}
	s := &station{adapter: a, tls: how, cq: cq, used: controlContext}
	if s.control, err = newControl(s); err != nil {
		return nil, errors.Join(err, cq.Close())
	}
	return s, nil
}

func (s *station) close() {
	s.control.close()
	_ = s.cq.Close() // the adapter would close it, too
}

// results returns data completions, and keeps completions of the control channel for control. If there are none, it sleeps (event)
// or returns nothing (poll), and it checks ctx. On a polling station, this call runs the transport.
func (s *station) results(ctx context.Context) ([]nd.Result, error) {
	if len(s.stash) > 0 {
		early := s.stash
		s.stash = nil
		return early, nil
	}
	n := s.cq.GetResults(s.res[:])
	if n == 0 {
		return nil, s.idle(ctx)
	}
	data := s.res[:0]
	for i := range s.res[:n] {
		r := &s.res[i]
		isControl := r.QueuePairID == controlContext
		if !isControl && r.QueuePairID != s.live {
			continue // flushed when the queue pair of the previous spec was disconnected
		}
		err := failure(r)
		if isControl {
			s.control.completed(r, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		data = append(data, *r)
	}
	return data, s.control.failed()
}

func (s *station) idle(ctx context.Context) error {
	if s.event {
		return s.cq.Notify(ctx, nd.NotifyAny)
	}
	if s.crowded {
		runtime.Gosched() // there may be fewer cores than sessions
	}
	if s.spins++; s.spins%spinCheck == 0 {
		return ctx.Err()
	}
	return nil
}

// failure converts a failed completion into an error.
func failure(r *nd.Result) error {
	if r.Status == nd.StatusSuccess {
		return nil
	}
	whose := "data"
	if r.QueuePairID == controlContext {
		whose = "control"
	}
	return fmt.Errorf("%v request %d on the %s queue pair: %w", r.Type, r.RequestID, whose, r.Status)
}

// link is a queue pair with the connector that connects it.
type link struct {
	qp        *nd.QueuePair
	connector *nd.Connector
	tls       TLS
}

// newLink creates a queue pair that uses the station's completion queue.
func (s *station) newLink(qpContext uint64, receives, requests, entries int) (*link, error) {
	qp, err := s.adapter.CreateQueuePair(nd.QueuePairConfig{
		ReceiveCQ: s.cq, InitiatorCQ: s.cq, ID: qpContext,
		ReceiveDepth: receives, InitiatorDepth: requests, MaxReceiveSGE: 1, MaxInitiatorSGE: entries,
	})
	if err != nil {
		return nil, err
	}
	connector, err := s.adapter.CreateConnector()
	if err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	return &link{qp, connector, s.tls}, nil
}

func params(private string) nd.ConnectParams {
	return nd.ConnectParams{InboundReadLimit: readLimit, OutboundReadLimit: readLimit, PrivateData: []byte(private)}
}

// dial connects from a free port, and checks that the responder agreed.
func (l *link) dial(ctx context.Context, local netip.Addr, peer netip.AddrPort, private string) error {
	if err := l.connector.Bind(netip.AddrPortFrom(local, 0)); err != nil {
		return err
	}
	if err := l.tls.connector(l.connector); err != nil {
		return err
	}
	if err := l.connector.Connect(ctx, l.qp, peer, params(private)); err != nil {
		return err
	}
	answer, err := l.connector.PrivateData()
	if err != nil {
		return err
	}
	if string(answer) != private {
		return fmt.Errorf("%s is no ndperf server of this version: it answered %q", peer, answer)
	}
	in, out, err := l.connector.ReadLimits()
	if err != nil {
		return err
	}
	if in == 0 || out == 0 {
		return fmt.Errorf("%s grants no reads (limits %d in, %d out)", peer, in, out)
	}
	return l.connector.CompleteConnect(ctx)
}

// closeTimeout bounds the disconnect from a peer that may be gone.
const closeTimeout = 2 * time.Second

// close ends the connection in any state.
func (l *link) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// The peer may have disconnected first, or the connection may never have been established. Both are fine.
	_ = l.connector.Disconnect(ctx)
	_ = l.connector.Close()
	_ = l.qp.Close()
}

// region is registered memory, divided into slots of equal size.
type region struct {
	mr   *nd.MemoryRegion
	buf  []byte
	size int
}

// remoteRegion is the address of the peer's region.
type remoteRegion struct {
	Address uint64 `json:"address"`
	Token   uint32 `json:"token"`
}

// newRegion allocates memory with all rights, from which packets can be sent without a copy.
func (s *station) newRegion(size, slots int) (*region, error) {
	flags := nd.MRAllowLocalWrite | nd.MRAllowRemoteRead | nd.MRAllowRemoteWrite
	mr, err := s.adapter.AllocateMemory(size*slots, flags)
	if err != nil {
		// The arena has a fixed size. Ordinary memory works as well, with one more copy.
		var plain error
		if mr, plain = s.adapter.RegisterMemory(make([]byte, size*slots), flags); plain != nil {
			return nil, errors.Join(err, plain)
		}
	}
	return &region{mr: mr, buf: mr.Bytes()[:size*slots], size: size}, nil
}

func (g *region) close() { _ = g.mr.Close() } // nothing uses it any more, and the adapter would close it, too

func (g *region) slot(i int) []byte { return g.buf[i*g.size : (i+1)*g.size] }

func (g *region) remote() remoteRegion {
	return remoteRegion{Address: g.mr.Address(), Token: uint32(g.mr.RemoteToken())}
}

// entries is sge with the slot divided into n entries.
func (g *region) entries(list []nd.SGE, i, n int) []nd.SGE {
	if n <= 1 {
		return g.sge(list, i)
	}
	rest, token := g.slot(i), g.mr.LocalToken()
	piece := len(rest) / n
	for k := range n - 1 {
		list[k] = nd.SGE{Buffer: rest[:piece], Token: token}
		rest = rest[piece:]
	}
	list[n-1] = nd.SGE{Buffer: rest, Token: token}
	return list[:n]
}

// sge puts slot i into list, which the caller reuses so that hot loops do not allocate.
func (g *region) sge(list []nd.SGE, i int) []nd.SGE {
	list[0] = nd.SGE{Buffer: g.slot(i), Token: g.mr.LocalToken()}
	return list[:1]
}
