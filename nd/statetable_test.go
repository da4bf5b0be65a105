package nd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
)

// stage executes the connector's rows of the state tables between two adapters, in real time.
type stage struct {
	t       *testing.T
	r       *rig
	l       *Listener
	at      netip.AddrPort
	ends    map[string]*end
	pending map[string]<-chan error

	authority *testhelp.Authority // of all TLS configurations
}

// stages counts the stages. Each has its own port from firstStagePort on.
var stages atomic.Uint32

const firstStagePort = 20000

// newStage makes the participants. A row that changes the network, or waits for silence, has its own rig.
func newStage(t *testing.T, row conformance.StateRow) *stage {
	s := &stage{t: t, ends: map[string]*end{}, pending: map[string]<-chan error{}, authority: testhelp.NewAuthority(t)}
	switch {
	case strings.Contains(strings.Join(row.Steps, " "), "IO_TIMEOUT"):
		s.r = newImpatientRig(t)
	case row.Uses("cut", "remove", "rival"):
		s.r = newRig(t, 1500, DatapathAuto)
	default:
		s.r = commonRig(t)
	}
	for who, a := range map[string]*Adapter{"a": s.r.a, "x": s.r.a, "y": s.r.a, "b": s.r.b, "z": s.r.b} {
		s.ends[who] = newEnd(t, a, 4096)
	}
	s.ends["x"].qp, s.ends["z"].qp = s.ends["a"].qp, s.ends["b"].qp
	var err error
	s.l, err = s.r.b.CreateListener()
	must(t, err)
	t.Cleanup(func() { must(t, s.l.Close()) })
	// Each stage has its own port, which adapters do not give out otherwise.
	s.at = netip.AddrPortFrom(s.r.addr[1], uint16(firstStagePort+stages.Add(1)))
	return s
}

// code returns the name of an error's status without its prefix.
func code(err error) string {
	if err == nil {
		return "SUCCESS"
	}
	status := errInternal
	errors.As(err, &status)
	_, name, _ := strings.Cut(status.Name(), "_")
	return name
}

// waitsFor reports whether a call may wait.
func waitsFor(call string) bool {
	kind, _, _ := strings.Cut(call, "-")
	return slices.Contains([]string{"connect", "accept", "complete", "disconnect", "notify", "notify2", "getreq"}, kind)
}

func (s *stage) Call(who, call string) string {
	e := s.ends[who]
	if !waitsFor(call) {
		return s.ask(e, call)
	}
	return code(finish(s.t, who+"."+call, start(func() error { return s.start(e, call) })))
}

// Start returns when the call waits or has returned.
func (s *stage) Start(who, call string) {
	s.t.Helper()
	e := s.ends[who]
	before := e.ctr.notifications()
	done := start(func() error { return s.start(e, call) })
	s.pending[who+"."+call] = done
	began := map[string]func() bool{
		"connect": in(e.ctr, provider.CtrConnecting), "accept": in(e.ctr, provider.CtrAccepting),
		"complete": in(e.ctr, provider.CtrCompleting), "disconnect": in(e.ctr, provider.CtrDisconnecting),
		"getreq": in(e.ctr, provider.CtrWaitReq), "notify": func() bool { return e.ctr.notifications() > before },
	}[strings.TrimSuffix(call, "2")]
	eventually(s.t, who+"."+call+" begins", func() bool { return len(done) > 0 || began() })
}

// start makes a call that may wait.
func (s *stage) start(e *end, call string) error {
	kind, how, _ := strings.Cut(call, "-")
	ctx, params, dest := s.t.Context(), helloParams, s.at
	switch how {
	case "long":
		params.PrivateData = make([]byte, provider.MaxPrivateData+1)
	case "unspecified":
		dest = netip.MustParseAddrPort("0.0.0.0:7000")
	case "no-route":
		dest = netip.MustParseAddrPort("192.0.2.1:7000")
	case "no-neighbour":
		dest = netip.MustParseAddrPort("10.99.0.79:7000")
	}
	switch kind {
	case "connect":
		return e.ctr.Connect(ctx, e.qp, dest, params)
	case "accept":
		return e.ctr.Accept(ctx, e.qp, params)
	case "complete":
		return e.ctr.CompleteConnect(ctx)
	case "disconnect":
		return e.ctr.Disconnect(ctx)
	case "getreq":
		return s.l.GetConnectionRequest(ctx, e.ctr)
	default:
		return e.ctr.NotifyDisconnect(ctx)
	}
}

// ask makes a call that does not wait.
func (s *stage) ask(e *end, call string) string {
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(e.ctr.adapter.verbs.Addr, port) }
	var err error
	switch call {
	case "bind":
		err = e.ctr.Bind(at(0))
	case "bind-fixed":
		err = e.ctr.Bind(at(7200))
	case "bind-taken":
		err = e.ctr.Bind(s.at)
	case "bind-foreign":
		err = e.ctr.Bind(unreachable)
	case "tls", "tls-strict":
		err = e.ctr.UseTLS(s.dialer(call == "tls-strict"))
	case "reject":
		err = e.ctr.Reject([]byte("no"))
	case "reject-long":
		err = e.ctr.Reject(make([]byte, provider.MaxPrivateData+1))
	case "cancel":
		e.ctr.CancelOverlappedRequests()
	case "close":
		err = e.ctr.Close()
	case "release":
		err = e.qp.Close()
	case "private":
		_, err = e.ctr.PrivateData()
	case "limits":
		_, _, err = e.ctr.ReadLimits()
	case "local":
		_, err = e.ctr.LocalAddress()
	case "peer":
		_, err = e.ctr.PeerAddress()
	case "receive":
		err = e.qp.Receive(0, nil)
	case "write":
		err = e.qp.Write(0, nil, 0, 0, 0)
	case "bad-write":
		err = e.qp.Write(0, []SGE{{Buffer: e.mr.Bytes()[:8]}}, 0, 0, 0)
	case "results":
		return s.outcomes(e)
	default:
		s.t.Fatalf("unknown call %s", call)
	}
	return code(err)
}

// dialer returns the TLS configuration of an active side. A strict one accepts no listener.
func (s *stage) dialer(strict bool) *tls.Config {
	cfg, _ := mutual(s.authority)
	if strict {
		cfg.RootCAs = x509.NewCertPool()
	}
	return cfg
}

// listener returns the TLS configuration of the listener. A strict one accepts no dialer.
func (s *stage) listener(strict bool) *tls.Config {
	_, cfg := mutual(s.authority)
	if strict {
		cfg.ClientCAs = x509.NewCertPool()
	}
	return cfg
}

// outcomes polls all results, or reports that there is none.
func (s *stage) outcomes(e *end) string {
	var all []string
	var res [8]Result
	if e.qp.qp.State() == provider.QPError || e.qp.qp.State() == provider.QPClosed {
		eventually(s.t, "a result", func() bool { return e.cq.cq.Queued() > 0 })
	}
	for _, r := range res[:e.cq.GetResults(res[:])] {
		_, name, _ := strings.Cut(r.Status.Name(), "_")
		all = append(all, name)
	}
	if all == nil {
		return "NONE"
	}
	return strings.Join(all, "+")
}

func (s *stage) Finish(who, call string) string {
	s.t.Helper()
	return code(finish(s.t, who+"."+call, s.pending[who+"."+call]))
}

func (s *stage) Pending(who, call string) bool { return len(s.pending[who+"."+call]) == 0 }

func (s *stage) Await(who, state string) {
	s.t.Helper()
	e := s.ends[who]
	now := func() string { return strings.ReplaceAll(e.ctr.state().String(), " ", "-") }
	if want, ok := strings.CutPrefix(state, "qp:"); ok {
		state, now = want, func() string { return e.qp.qp.State().String() }
	}
	eventually(s.t, who+" is "+state+", and not "+now(), func() bool { return now() == state })
}

func (s *stage) Do(who, event string) {
	s.t.Helper()
	switch event {
	case "cut":
		// Packets of the participant wait in its ring until the link is up again. Packets of the others are lost.
		s.r.setLink(s.t, map[string]*netlab.Namespace{"": s.r.pair.B, "a": s.r.pair.A}[who], false)
	case "heal":
		s.r.setLink(s.t, s.r.pair.A, true)
		s.r.setLink(s.t, s.r.pair.B, true)
		must(s.t, s.r.pair.AwaitCarrier())
	case "silence":
		must(s.t, s.r.b.Close())
		silenceAt(s.t, s.r.pair.B, s.r.addr[1])
	case "rival": // a peer that has a connection between these endpoints
		must(s.t, s.r.b.Close())
		netlabtest.RefuseAsExisting(s.t, s.r.pair.B, netip.AddrPortFrom(s.r.addr[1], DefaultUDPPort))
	case "remove":
		s.remove(who)
	case "aborted":
		k := s.ends[who].ctr
		eventually(s.t, who+" knows that the peer is gone", func() (known bool) {
			k.do(func(*provider.Engine) { known = k.k.Aborted() })
			return known
		})
	case "listen", "listen-one", "listen-tls", "listen-tls-strict":
		must(s.t, s.l.Bind(s.at))
		if strings.HasPrefix(event, "listen-tls") {
			must(s.t, s.l.UseTLS(s.listener(event == "listen-tls-strict"), TLSRequired))
		}
		backlog := 0
		if event == "listen-one" {
			backlog = 1
		}
		must(s.t, s.l.Listen(backlog))
	case "queued":
		eventually(s.t, "a request is queued", func() (queued bool) {
			s.r.b.do(func(*provider.Engine) { queued = s.l.l.Queued() > 0 })
			return queued
		})
	case "renewed": // a newer request has replaced the queued one
		eventually(s.t, "a newer request is queued", func() (renewed bool) {
			s.r.b.do(func(e *provider.Engine) { renewed = s.l.l.Queued() == 1 && e.Stats().Connections == 2 })
			return renewed
		})
	case "cancel":
		s.l.CancelOverlappedRequests()
	case "close":
		must(s.t, s.l.Close())
	default:
		s.t.Fatalf("unknown event %s", event)
	}
}

// remove removes the interface of a participant.
func (s *stage) remove(who string) {
	ns, index := s.r.pair.A, s.r.pair.IfindexA
	if who == "b" {
		ns, index = s.r.pair.B, s.r.pair.IfindexB
	}
	must(s.t, ns.Do(func() error {
		link, err := netlink.LinkByIndex(index)
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	}))
}

// The connector's rows over a real network. provider.TestStateTable executes all rows on virtual time.
func TestStateTable(t *testing.T) {
	t.Parallel()
	rows, err := conformance.LoadStates("testdata")
	must(t, err)
	for _, row := range rows {
		if row.ID[0] != 'C' {
			continue
		}
		t.Run(row.ID+" "+row.Given, func(t *testing.T) {
			t.Parallel()
			row.Play(t, "nd", newStage(t, row))
		})
	}
}
