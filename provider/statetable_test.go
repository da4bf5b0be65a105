package provider

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/wire"
)

// codes maps outcomes to the status names that the rows of the specification's state tables use.
var codes = map[Outcome]string{
	OutcomeSuccess: "SUCCESS", OutcomeCanceled: "CANCELED", OutcomeAccessViolation: "ACCESS_VIOLATION", OutcomeIOTimeout: "IO_TIMEOUT",
	OutcomeConnectionInvalid: "CONNECTION_INVALID", OutcomeConnectionActive: "CONNECTION_ACTIVE", OutcomeRefused: "CONNECTION_REFUSED",
	OutcomeDeclined: "CONNECTION_REFUSED", OutcomeAborted: "CONNECTION_ABORTED", OutcomeWithdrawn: "CONNECTION_ABORTED",
	OutcomeAddressExists: "ADDRESS_ALREADY_EXISTS", OutcomeAddressAssociated: "ADDRESS_ALREADY_ASSOCIATED",
	OutcomeSharingViolation: "SHARING_VIOLATION", OutcomeTooManyAddresses: "TOO_MANY_ADDRESSES",
	OutcomeInvalidBufferSize: "INVALID_BUFFER_SIZE", OutcomeDeviceRemoved: "DEVICE_REMOVED", OutcomeInvalidState: "INVALID_DEVICE_STATE",
	OutcomeInvalidRequest: "INVALID_DEVICE_REQUEST", OutcomeBufferOverflow: "BUFFER_OVERFLOW",
}

// patience is how much virtual time a call may take to finish.
const patience = 30 * time.Second

// stage executes rows of the state tables on two engines, on virtual time.
type stage struct {
	*pair
	l       *Listener
	ctrs    map[string]*Connector
	qps     map[string]*QP
	pending map[string]*promise
	ended   []string // the calls that waited for a completion queue, in the order in which they ended
}

func newStage(tb testing.TB) *stage {
	s := &stage{pair: newPair(tb, 1400), ctrs: map[string]*Connector{}, qps: map[string]*QP{}, pending: map[string]*promise{}}
	s.l = s.eng[1].NewListener()
	for who, side := range map[string]int{"a": 0, "x": 0, "y": 0, "b": 1, "z": 1} {
		s.ctrs[who] = s.eng[side].NewConnector()
		s.qps[who] = s.qp[side]
	}
	s.qps["y"] = s.eng[0].NewQP(QPConfig{ReceiveCQ: s.cq[0], InitiatorCQ: s.cq[0], InitiatorDepth: 4, MaxInitiatorSGE: 4})
	return s
}

func (s *stage) side(who string) int {
	if who == "b" || who == "z" {
		return 1
	}
	return 0
}

var stageListener = wire.Endpoint{IP: pairIP[1], Port: pairPort}

// waits reports whether a call may wait.
func waits(call string) bool {
	kind, _, _ := strings.Cut(call, "-")
	return slices.Contains([]string{"connect", "accept", "complete", "disconnect", "notify", "notify2", "getreq", "arm"}, kind)
}

func (s *stage) Call(who, call string) string {
	if call == "results" {
		return s.outcomesOf(who)
	}
	s.runUntilIdle()
	if !waits(call) {
		return codes[s.ask(who, call)]
	}
	f := &promise{}
	o := s.start(who, call, f.finish)
	if o == OutcomeSuccess { // the call must have ended already
		f.must(s.tb, OutcomeSuccess)
	}
	return codes[o]
}

func (s *stage) Start(who, call string) {
	s.tb.Helper()
	s.runUntilIdle()
	f := &promise{}
	s.pending[who+"."+call] = f
	s.must(s.start(who, call, func(o Outcome) {
		f.finish(o)
		if strings.HasPrefix(call, "arm") {
			s.ended = append(s.ended, call)
		}
	}))
	s.runUntilIdle()
}

// start begins a call that may wait.
func (s *stage) start(who, call string, fin Finish) (o Outcome) {
	k, qp := s.ctrs[who], s.qps[who]
	params := ConnectParams{Inbound: 8, Outbound: 8, Private: []byte("said")}
	if strings.HasSuffix(call, "-long") {
		params.Private = make([]byte, MaxPrivateData+1)
	}
	switch kind, _, _ := strings.Cut(call, "-"); kind {
	case "connect":
		return k.connect(qp, wire.Endpoint{IP: pairIP[s.side(who)]}, stageListener, params, fin)
	case "accept":
		return k.Accept(qp, params, fin)
	case "complete":
		return k.CompleteConnect(fin)
	case "disconnect":
		return k.Disconnect(fin)
	case "getreq":
		return s.l.GetRequest(k, fin)
	case "arm":
		level := map[string]NotifyLevel{"any": NotifyAny, "solicited": NotifySolicited, "errors": NotifyErrors}[strings.Split(call, "-")[1]]
		s.cq[s.side(who)].Arm(level, fin)
		return OutcomeSuccess
	default:
		_, o = k.NotifyDisconnect(fin)
		return o
	}
}

// ask makes a call that does not wait.
func (s *stage) ask(who, call string) (o Outcome) {
	if who == "l" {
		return s.askListener(call)
	}
	k, side := s.ctrs[who], s.side(who)
	switch call {
	case "bind":
		return k.Bind(wire.Endpoint{IP: pairIP[side]})
	case "bind-fixed":
		return k.Bind(wire.Endpoint{IP: pairIP[side], Port: 7200})
	case "bind-taken":
		return k.Bind(stageListener)
	case "tls", "tls-strict":
		return k.UseTLS(stageTLS(true, call))
	case "reject":
		return k.Reject([]byte("no"))
	case "reject-long":
		return k.Reject(make([]byte, MaxPrivateData+1))
	case "cancel":
		k.Cancel()
	case "close":
		k.Close()
	case "release":
		s.qps[who].Release()
	case "flush":
		s.qps[who].Flush()
	case "private":
		_, o = k.Private()
	case "limits":
		_, _, o = k.ReadLimits()
	case "local":
		_, o = k.Local()
	case "peer":
		_, o = k.Peer()
	default:
		return s.postFor(who, call)
	}
	return o
}

// stageTLS returns the handshakes of one side, which accepts the peer unless it is strict.
func stageTLS(client bool, how string) Shaker {
	plan := usual
	if how == "tls-strict" {
		plan.Refuse = 42
	}
	return shakertest.Fixed(client, plan)
}

// postFor posts a request.
func (s *stage) postFor(who, call string) (o Outcome) {
	side, qp := s.side(who), s.qps[who]
	switch call {
	case "receive":
		_, o = qp.PostReceive(0, nil, 0)
	case "send":
		_, o = (&listed{Request: Request{Kind: KindSend}}).post(qp)
	case "write":
		_, o = s.write(side, 0, 8).post(qp)
	case "read":
		r := s.write(side, 0, 8)
		r.Kind = KindRead
		_, o = r.post(qp)
	case "bad-write":
		r := s.write(side, 0, 8)
		r.SGL[0].Token++
		_, o = r.post(qp)
	default:
		s.tb.Fatalf("unknown call %s", call)
	}
	return o
}

// outcomesOf polls all results and returns their statuses in order.
func (s *stage) outcomesOf(who string) string {
	s.runUntilIdle()
	var all []string
	for _, r := range s.results(s.side(who)) {
		all = append(all, codes[r.Outcome])
	}
	if all == nil {
		return "NONE"
	}
	return strings.Join(all, "+")
}

// until advances the time step by step until a condition holds.
func (s *stage) until(what string, holds func() bool) {
	s.tb.Helper()
	for end := s.now.Add(patience); !holds(); {
		if s.now > end {
			s.tb.Fatalf("not within %v: %s", patience, what)
		}
		next := min(s.eng[0].NextDeadline(), s.eng[1].NextDeadline(), s.now.Add(time.Second))
		s.pass(max(next.Sub(s.now), time.Microsecond))
	}
}

func (s *stage) Finish(who, call string) string {
	s.tb.Helper()
	f := s.pending[who+"."+call]
	if f == nil {
		s.tb.Fatalf("%s.%s was not started", who, call)
	}
	s.until(who+"."+call+" ends", func() bool { return f.times > 0 })
	if f.times != 1 {
		s.tb.Errorf("%s.%s ended %d times", who, call, f.times)
	}
	return codes[f.outcome]
}

func (s *stage) Pending(who, call string) bool {
	s.runUntilIdle()
	f := s.pending[who+"."+call]
	return f != nil && f.times == 0
}

func (s *stage) Await(who, state string) {
	s.tb.Helper()
	now := func() string { return strings.ReplaceAll(s.ctrs[who].State().String(), " ", "-") }
	if want, ok := strings.CutPrefix(state, "qp:"); ok {
		state, now = want, func() string { return s.qps[who].State().String() }
	}
	for end := s.now.Add(patience); now() != state && s.now < end; {
		next := min(s.eng[0].NextDeadline(), s.eng[1].NextDeadline(), s.now.Add(time.Second))
		s.pass(max(next.Sub(s.now), time.Microsecond))
	}
	if now() != state {
		s.tb.Errorf("%s is %s, want %s", who, now(), state)
	}
}

func (s *stage) Do(who, event string) {
	s.tb.Helper()
	s.runUntilIdle()
	switch event {
	case "cut":
		for i := range s.link { // in both directions, whichever side is named
			s.link[i].mangle = func([]byte) bool { return false }
		}
	case "heal":
		s.link[0].mangle, s.link[1].mangle = nil, nil
	case "rival": // an attempt of the peer between these endpoints
		s.link[1].mangle = func([]byte) bool { return false }
		k := s.eng[1].NewConnector()
		s.must(k.connect(s.qps["z"], stageListener, wire.Endpoint{IP: pairIP[0], Port: 7200}, ConnectParams{}, func(Outcome) {}))
		s.runUntilIdle()
		s.link[1].mangle = nil
	case "remove":
		s.eng[s.side(who)].Shutdown()
	case "aborted":
		s.until(who+" knows that the peer is gone", s.ctrs[who].Aborted)
	case "exhaust":
		for port := ndports.FirstAutomatic; port <= ndports.LastAutomatic; port++ {
			_, o := s.eng[0].NewListener().Bind(wire.Endpoint{IP: pairIP[0], Port: uint16(port)})
			s.must(o)
		}
	case "in-order":
		if !slices.IsSortedFunc(s.ended, func(a, b string) int { return int(a[len(a)-1]) - int(b[len(b)-1]) }) {
			s.tb.Errorf("the calls ended in the order %v", s.ended)
		}
	case "plain", "silent", "arrive", "solicited", "overrun", "cancel-arms":
		s.report(who, event)
	default:
		s.listener(event)
	}
	s.runUntilIdle()
}

// report adds results to a participant's completion queue, or stops waiting for them.
func (s *stage) report(who, event string) {
	side := s.side(who)
	q := s.cq[side]
	queued := q.Queued()
	flags := map[string]PostFlags{"silent": FlagSilentSuccess, "solicited": FlagSolicit}[event]
	switch event {
	case "cancel-arms":
		q.CancelWaiters(OutcomeCanceled)
		return
	case "plain", "silent":
		s.post(side, &listed{Request: Request{Kind: KindWrite, Flags: flags}})
	case "arrive", "solicited":
		_, o := s.qp[side].PostReceive(0, nil, 0)
		s.must(o)
		s.post(1-side, &listed{Request: Request{Kind: KindSend, Flags: flags}})
	case "overrun":
		for range 2 * q.Depth() / 128 {
			for range 128 {
				s.post(side, &listed{Request: Request{Kind: KindWrite}})
			}
			s.runUntilIdle()
			if q.Faulted() {
				return
			}
		}
	}
	s.until("a result", func() bool { return q.Queued() > queued || event == "silent" && s.qp[side].Outstanding() == 0 })
}

// askListener makes a call of the listener.
func (s *stage) askListener(call string) (o Outcome) {
	switch call {
	case "bind":
		_, o = s.l.Bind(stageListener)
	case "listen":
		o = s.l.Listen(0)
	case "local":
		_, o = s.l.Local()
	default:
		s.tb.Fatalf("unknown call %s", call)
	}
	return o
}

// listener applies an event to the listener.
func (s *stage) listener(event string) {
	switch event {
	case "listen", "listen-one", "listen-tls", "listen-tls-strict":
		_, o := s.l.Bind(stageListener)
		s.must(o)
		if how := strings.TrimPrefix(event, "listen-"); strings.HasPrefix(how, "tls") {
			s.must(s.l.UseTLS(stageTLS(false, how), false))
		}
		backlog := 0
		if event == "listen-one" {
			backlog = 1
		}
		s.must(s.l.Listen(backlog))
	case "queued":
		s.until("a request is queued", func() bool { return len(s.l.queue) > 0 })
	case "renewed": // a newer request has replaced the queued one
		s.until("a newer request is queued", func() bool { return s.l.Queued() == 1 && s.eng[1].Stats().Connections == 2 })
	case "cancel":
		s.l.CancelRequests(OutcomeCanceled)
	case "close":
		s.l.Close()
	default:
		s.tb.Fatalf("unknown event %s", event)
	}
}

func TestStateTable(t *testing.T) {
	rows, err := conformance.LoadStates("../nd/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if !row.Played() {
			continue
		}
		t.Run(row.ID+" "+row.Given, func(t *testing.T) { row.Play(t, "engine", newStage(t)) })
	}
}
