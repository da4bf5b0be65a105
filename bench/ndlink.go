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

// controlContext is the queue pair context of the control channel; data queue pairs count up from there. Every completion
// of a session arrives at one completion queue, and the context tells whose it is.
const controlContext = 1

const (
	// sessionCQDepth holds the completions of the control queue pair and of one data queue pair at Spec's largest depth:
	// maxSpecDepth initiator requests and twice as many receives.
	sessionCQDepth = 16384
	maxSpecDepth   = 4096
	// readLimit is asked for in both directions; the effective one is the smaller of both sides'.
	readLimit = 16
	// spinCheck is how many fruitless turns of a polling loop share one look at the context.
	spinCheck = 1 << 12
)

// station is one side of a session: an adapter, one completion queue for everything, and the control channel on it.
type station struct {
	adapter *nd.Adapter
	cq      *nd.CompletionQueue
	control *control
	event   bool // sleep in Notify instead of spinning
	crowded bool // other sessions of this process spin too

	res   [64]nd.Result
	stash []nd.Result // data completions that arrived while control was waiting for its own
	spins int

	moved  atomic.Uint64 // operations of the present test that ended: who looks is another goroutine
	cut    atomic.Bool   // the present test is to end, as if its time were over
	teller *teller       // nil when nobody wants to hear of tests while they run

	live uint64 // context of the data queue pair that is in use, 0 for none: others' completions are leftovers
	used uint64 // the last context that was given out
}

func newStation(a *nd.Adapter) (*station, error) {
	cq, err := a.CreateCompletionQueue(sessionCQDepth)
	if err != nil {
		return nil, err
	}
	s := &station{adapter: a, cq: cq, used: controlContext}
	if s.control, err = newControl(s); err != nil {
		return nil, errors.Join(err, cq.Close())
	}
	return s, nil
}

func (s *station) close() {
	s.control.close()
	_ = s.cq.Close() // the adapter closes it otherwise
}

// results returns the data completions that have arrived and keeps completions of the control channel for control. If
// there are none, it sleeps (event) or returns nothing (poll); either way it notices the end of ctx. It makes progress:
// on a polling station the transport runs inside this call.
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
		isControl := r.QueuePairContext == controlContext
		if !isControl && r.QueuePairContext != s.live {
			continue // flushed when the queue pair of the spec before was disconnected
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

// failure turns a completion that did not succeed into an error.
func failure(r *nd.Result) error {
	if r.Status == nd.StatusSuccess {
		return nil
	}
	whose := "data"
	if r.QueuePairContext == controlContext {
		whose = "control"
	}
	return fmt.Errorf("%v request %d on the %s queue pair: %w", r.Type, r.RequestContext, whose, r.Status)
}

// link is a queue pair with the connector that connects it.
type link struct {
	qp        *nd.QueuePair
	connector *nd.Connector
}

// newLink creates a queue pair whose completions all go to the station's queue.
func (s *station) newLink(qpContext uint64, receives, requests, entries int) (*link, error) {
	qp, err := s.adapter.CreateQueuePair(nd.QueuePairConfig{
		ReceiveCQ: s.cq, InitiatorCQ: s.cq, Context: qpContext,
		ReceiveDepth: receives, InitiatorDepth: requests, MaxReceiveSGE: 1, MaxInitiatorSGE: entries,
	})
	if err != nil {
		return nil, err
	}
	connector, err := s.adapter.CreateConnector()
	if err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	return &link{qp, connector}, nil
}

func params(private string) nd.ConnectParams {
	return nd.ConnectParams{InboundReadLimit: readLimit, OutboundReadLimit: readLimit, PrivateData: []byte(private)}
}

// dial connects from a port that the adapter chooses, and checks that the responder agreed.
func (l *link) dial(ctx context.Context, local netip.Addr, peer netip.AddrPort, private string) error {
	if err := l.connector.Bind(netip.AddrPortFrom(local, 0)); err != nil {
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

// closeTimeout bounds a disconnect from a peer that may be gone.
const closeTimeout = 2 * time.Second

// close ends the connection, whatever state it is in.
func (l *link) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// The peer may have disconnected first, or the connection may never have been made: both end the same way.
	_ = l.connector.Disconnect(ctx)
	_ = l.connector.Close()
	_ = l.qp.Close()
}

// region is registered memory, cut into slots of equal size.
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

// newRegion allocates memory that a packet can be sent from without a copy, open for every access.
func (s *station) newRegion(size, slots int) (*region, error) {
	flags := nd.MRAllowLocalWrite | nd.MRAllowRemoteRead | nd.MRAllowRemoteWrite
	mr, err := s.adapter.AllocateMemory(size*slots, flags)
	if err != nil {
		// The arena has a fixed size; ordinary memory serves as well, with one copy more.
		var plain error
		if mr, plain = s.adapter.RegisterMemory(make([]byte, size*slots), flags); plain != nil {
			return nil, errors.Join(err, plain)
		}
	}
	return &region{mr: mr, buf: mr.Bytes()[:size*slots], size: size}, nil
}

func (g *region) close() { _ = g.mr.Close() } // nothing refers to it any more, and the adapter closes it otherwise

func (g *region) slot(i int) []byte { return g.buf[i*g.size : (i+1)*g.size] }

func (g *region) remote() remoteRegion {
	return remoteRegion{Address: g.mr.Address(), Token: uint32(g.mr.RemoteToken())}
}

// entries is sge with the slot in n pieces, which the last one ends.
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

// sge puts slot i into list, which the caller reuses: the hot loops allocate nothing.
func (g *region) sge(list []nd.SGE, i int) []nd.SGE {
	list[0] = nd.SGE{Buffer: g.slot(i), Token: g.mr.LocalToken()}
	return list[:1]
}
