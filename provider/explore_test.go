package provider

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// The explorer tries every order of events between one active and one passive engine. Each packet may be delivered before or after
// any other, lost or doubled. Timers may fire first. Both applications may answer, reject, cancel, close, disconnect or think for
// as long as they like. The search is breadth first over sequences of actions, each run from the start on the real engine; equal
// states are visited once. From each state a fair network and well-behaved applications must reach a proper end (PROTOCOL §7, §8).

var (
	exploreMore = flag.Int("explore.more", 0, "packets to lose or double, timers to fire, and goroutines to interrupt, beyond the default")
	exploreTime = flag.Duration("explore.time", 0, "stop each scenario after this long, as a failure; 0: when all is explored")
)

type action uint8

const (
	actDeliver action = iota // 0 to 2 select the packet
	actDrop    action = iota + 2
	actDouble  action = iota + 4
)

const (
	actTick action = iota + 9
	actGet
	actAccept
	actPassiveReject
	actComplete
	actCompleteEarly
	actDecline
	actActiveCancel
	actPassiveCancel
	actActiveClose
	actPassiveClose
	actListenerClose
	actActiveDisconnect
	actPassiveDisconnect
	numActions
)

var actionNames = [numActions]string{
	"deliver 0", "deliver 1", "deliver 2", "drop 0", "drop 1", "drop 2", "double 0", "double 1", "double 2", "timer",
	"GetConnectionRequest", "Accept", "passive Reject", "CompleteConnect", "CompleteConnectEarly", "active Reject", "active Cancel", "passive Cancel",
	"active Close", "passive Close", "listener Close", "active Disconnect", "passive Disconnect",
}

// script is the state of one run.
type script struct {
	*world
	faults, ticks int
	pending       []*promise // accepted calls, each of which has to finish exactly once
	spare         *Connector // a second connector for GetConnectionRequest
	illegal       string
	menu          []action
	over          bool
}

type scenario struct {
	name          string
	faults, ticks int
	loaded        bool // every REQ needs a cookie
	prefix        []action
	menu          []action // the actions that applications may take; all if nil
}

func (s *scenario) start(lanes [2]*lane) *script {
	x := &script{world: newWorld(lanes, 3, Config{}), faults: s.faults, ticks: s.ticks, menu: s.menu}
	x.spare = x.eng[1].NewConnector()
	if s.loaded {
		x.eng[1].fillBacklogs()
	}
	x.call(x.ctr[0].connect(x.qp[0], wire.Endpoint{IP: pairIP[0]}, wire.Endpoint{IP: pairIP[1], Port: pairPort},
		ConnectParams{Inbound: 3, Outbound: 8, Private: []byte("?")}, x.promise()))
	x.turn()
	return x
}

// promise returns a Finish for a call. The call keeps it only if it was accepted.
func (x *script) promise() Finish {
	p := &promise{}
	x.pending = append(x.pending, p)
	return p.finish
}

func (x *script) call(o Outcome) {
	if last := len(x.pending) - 1; o != OutcomeSuccess {
		if x.pending[last].times != 0 {
			x.illegal = "a call failed and finished as well"
		}
		x.pending = x.pending[:last]
	}
}

// try handles calls that finish at once. Their connection may be gone already.
func (x *script) try(o Outcome) {
	if o != OutcomeSuccess && o != OutcomeAborted {
		x.illegal = "a call failed: " + o.String()
	}
}

func (x *script) enabled() (as []action) {
	for i := range x.air {
		if slices.ContainsFunc(x.air[:i], func(f flight) bool { return sameFlight(f, x.air[i]) }) {
			continue
		}
		as = append(as, actDeliver+action(i))
		if x.faults > 0 {
			as = append(as, actDrop+action(i))
			if len(x.air) < x.room {
				as = append(as, actDouble+action(i))
			}
		}
	}
	if x.ticks > 0 && x.next() < x.now.Add(time.Minute) {
		as = append(as, actTick)
	}
	for _, a := range x.calls() {
		if x.menu == nil || slices.Contains(x.menu, a) {
			as = append(as, a)
		}
	}
	return as
}

// calls returns the calls that the applications may make now.
func (x *script) calls() (as []action) {
	if !x.l.closed {
		as = append(as, actListenerClose)
		if x.ctr[1].state == CtrIdle {
			as = append(as, actGet)
		}
	}
	switch x.ctr[0].state {
	case CtrConnecting:
		as = append(as, actActiveCancel, actActiveClose)
	case CtrAccepted:
		as = append(as, actComplete, actCompleteEarly, actDecline, actActiveClose)
	case CtrCompleting:
		as = append(as, actActiveCancel, actActiveClose)
	case CtrEstablished, CtrPeerGone:
		as = append(as, actActiveDisconnect, actActiveClose)
	case CtrDisconnecting:
		as = append(as, actActiveCancel)
	default:
	}
	switch x.ctr[1].state {
	case CtrRequested:
		as = append(as, actAccept, actPassiveReject, actPassiveClose)
	case CtrAccepting:
		as = append(as, actPassiveCancel, actPassiveClose)
	case CtrEstablished, CtrPeerGone:
		as = append(as, actPassiveDisconnect, actPassiveClose)
	case CtrDisconnecting:
		as = append(as, actPassiveCancel)
	default:
	}
	return as
}

func sameFlight(a, b flight) bool { return a.to == b.to && flightHash(a) == flightHash(b) }

// flightHash hashes a packet without its packet number, blocks and checksum, which differ between retransmissions.
func flightHash(f flight) uint64 {
	h := fnv.New64a()
	h.Write([]byte{byte(f.to)})
	h.Write(f.data[:4])
	h.Write(f.data[8:wire.CRCOffset])
	h.Write(contents(f.data))
	return h.Sum64()
}

func (x *script) do(a action) {
	switch {
	case a < actDrop:
		x.deliver(int(a))
	case a < actDouble:
		i := int(a - actDrop)
		x.air = append(x.air[:i:i], x.air[i+1:]...)
		x.faults--
	case a < actTick:
		x.air = append(x.air, x.air[a-actDouble])
		x.faults--
	case a == actTick:
		x.ticks--
		x.now = max(x.now, x.next())
		x.turn()
	default:
		x.act(a)
		x.turn()
	}
}

var (
	passiveParams = ConnectParams{Inbound: 5, Outbound: 2, Private: []byte("!")}
	exploreWant   = [2]uint32{5, 2} // the outstanding Reads that the active and the passive side may have
)

func (x *script) act(a action) {
	switch k := &x.ctr; a {
	case actGet:
		x.call(x.l.GetRequest(k[1], x.promise()))
	case actAccept:
		x.call(k[1].Accept(x.qp[1], passiveParams, x.promise()))
	case actPassiveReject:
		x.try(k[1].Reject([]byte("no")))
	case actComplete:
		x.call(k[0].CompleteConnect(x.promise()))
	case actCompleteEarly:
		x.try(k[0].CompleteConnectEarly())
	case actDecline:
		x.try(k[0].Reject(nil))
	case actActiveCancel:
		k[0].Cancel()
	case actPassiveCancel:
		k[1].Cancel()
	case actActiveClose:
		k[0].Close()
	case actPassiveClose:
		k[1].Close()
	case actListenerClose:
		x.l.Close()
	case actActiveDisconnect:
		x.call(k[0].Disconnect(x.promise()))
	case actPassiveDisconnect:
		x.call(k[1].Disconnect(x.promise()))
	default:
	}
}

// hash returns a hash of everything that the rest of the run can depend on, with times in milliseconds.
func (x *script) hash() uint64 {
	h := fnv.New64a()
	var b []byte
	put := func(vs ...uint64) {
		for _, v := range vs {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	put(uint64(x.faults), uint64(x.ticks), uint64(len(x.l.queue)), uint64(len(x.l.waiting)))
	flag := func(f bool) uint64 {
		if f {
			return 1
		}
		return 0
	}
	put(flag(x.l.closed))
	for i := range 2 {
		e := x.eng[i]
		put(uint64(x.ctr[i].state), uint64(x.ctr[i].aborted), uint64(x.qp[i].State()), e.stats.Established, e.stats.IllegalTransitions)
		for c := range e.group.conns.all {
			until := func(t int64) uint64 {
				if t == 0 {
					return 1 << 63
				}
				return uint64((t - int64(x.now)) >> 20)
			}
			hs, end := c.handshake, c.end
			if hs == nil {
				hs = &lifetime.Attempt{}
			}
			put(uint64(c.phase), c.identity.id, c.identity.peerID, flag(c.connector != nil), flag(c.qp != nil), uint64(c.ird), uint64(c.requestNumbers.ord),
				until(int64(hs.RetryAt)), uint64(hs.Gap), until(int64(hs.HeardAt)), uint64(hs.Retries), flag(hs.Proven), uint64(hs.Sent),
				uint64(end.Word), uint64(end.Reason), until(int64(end.NoticeAt)), uint64(end.Gap), until(int64(end.GiveUpAt)),
				until(int64(end.FreeAt)), flag(end.NoticeAcked), flag(end.NoticeReceived),
				uint64(c.alive.Asked()), until(int64(c.alive.HeardAt())), uint64(c.places.share), until(int64(c.deadline())))
			for sp := range wire.Space(wire.NumSpaces) {
				una, next, expected := c.numbers(sp)
				put(uint64(una), uint64(next), uint64(expected))
			}
		}
	}
	air := make([]uint64, 0, 3)
	for _, f := range x.air {
		air = append(air, flightHash(f))
	}
	slices.Sort(air)
	put(air...)
	for _, p := range x.pending {
		put(uint64(p.times), uint64(p.outcome))
	}
	h.Write(b)
	return h.Sum64()
}

// check describes what is wrong with a state, or returns an empty string.
func (x *script) check() string {
	for i := range 2 {
		if s := x.eng[i].stats; s.Established > 1 {
			return "one request made two connections"
		} else if s.IllegalTransitions != 0 {
			return "an illegal transition"
		}
		if x.ctr[i].state == CtrEstablished && x.ctr[i].conn == nil {
			return "established and nothing there"
		}
	}
	for _, p := range x.pending {
		if p.times > 1 {
			return "a call finished twice"
		}
	}
	a, b := x.qp[0].conn, x.qp[1].conn
	if a != nil && b != nil && a.phase == phaseOpen && b.phase == phaseOpen {
		if a.identity.id != b.identity.peerID || b.identity.id != a.identity.peerID || a.identity.localND != b.identity.peerN || b.identity.localND != a.identity.peerN {
			return "the ends do not know each other"
		}
		if a.requestNumbers.ord != exploreWant[0] || b.ird != a.requestNumbers.ord || b.requestNumbers.ord != exploreWant[1] || a.ird != b.requestNumbers.ord {
			return fmt.Sprintf("read limits %d %d and %d %d", a.ird, a.requestNumbers.ord, b.ird, b.requestNumbers.ord)
		}
		for sp := range wire.Space(wire.NumSpaces) {
			acked, _, expected := a.numbers(sp)
			if una, _, next := b.numbers(sp); int32(acked-next) > 0 || int32(una-expected) > 0 {
				return "message numbers do not fit"
			}
		}
	}
	return x.illegal
}

// ended reports whether neither application has an attempt or a connection.
func (x *script) ended() bool {
	for _, k := range x.ctr {
		if s := k.state; s != CtrDone && s != CtrLost && s != CtrBound {
			return false
		}
	}
	return true
}

// resolve lets the applications think for a while, and then lets them and the network behave well. It describes what does not
// finish.
func (x *script) resolve() string {
	x.pass(15*time.Second, func() {})
	if (x.eng[0].stats.Connections == 0) != (x.eng[1].stats.Connections == 0) {
		return "one end is there for ever without the other"
	}
	x.pass(30*time.Second, func() {
		for _, a := range x.calls() {
			if a == actGet || a == actAccept || a == actComplete {
				x.act(a)
			}
		}
		if !x.l.closed && x.spare.state == CtrIdle && x.ctr[1].state != CtrIdle && x.ctr[1].state != CtrWaitReq {
			x.call(x.l.GetRequest(x.spare, x.promise()))
		}
	})
	a, b := x.ctr[0].state, x.ctr[1].state
	if x.spare.state == CtrRequested {
		return "one request was delivered twice"
	}
	if a != CtrEstablished || b != CtrEstablished {
		for _, s := range []ConnectorState{a, b} {
			switch s {
			case CtrIdle, CtrBound, CtrWaitReq, CtrLost, CtrDone:
			default:
				return fmt.Sprintf("for ever %v and %v", a, b)
			}
		}
	}
	if what := x.check(); what != "" {
		return what
	}
	x.ctr[0].Close()
	x.ctr[1].Close()
	x.spare.Close()
	x.l.Close()
	x.pass(30*time.Second, func() {})
	for _, p := range x.pending {
		if p.times != 1 {
			return fmt.Sprintf("a call finished %d times", p.times)
		}
	}
	if x.eng[1].guard.Sources.Unproven() >= halfFull {
		x.eng[1].emptyBacklogs() // the load of the scenario
	}
	if what := x.left(); what != "" {
		return what
	}
	return x.check()
}

func (s *scenario) run(lanes [2]*lane, path []action) *script {
	x := s.start(lanes)
	for _, a := range s.prefix {
		x.do(a)
	}
	for _, a := range path {
		x.do(a)
	}
	return x
}

func describe(path []action) string {
	names := make([]string, len(path))
	for i, a := range path {
		names[i] = actionNames[a]
	}
	return strings.Join(names, ", ")
}

func TestExploreHandshake(t *testing.T) {
	if raceEnabled {
		t.Skip("needs a build without the race detector: one goroutine at a time calls the engines, so it would find nothing in minutes")
	}
	percent := debug.SetGCPercent(1000) // every step makes two engines
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	handshake := []action{
		actAccept, actPassiveReject, actComplete, actCompleteEarly, actDecline, actActiveCancel, actPassiveCancel, actActiveClose, actPassiveClose,
	}
	ending := []action{actActiveDisconnect, actPassiveDisconnect, actActiveCancel, actPassiveCancel, actActiveClose, actPassiveClose}
	accepted := []action{actGet, actDeliver, actAccept}
	answered := append(accepted[:len(accepted):len(accepted)], actDeliver)
	connected := append(answered, actComplete, actDeliver, actDeliver)
	early := append(answered[:len(answered):len(answered)], actCompleteEarly)
	for _, s := range []scenario{
		{name: "request", faults: 1, ticks: 1, menu: []action{actGet, actPassiveReject, actActiveCancel, actActiveClose, actPassiveClose, actListenerClose}},
		{name: "handshake", faults: 1, ticks: 1, menu: handshake, prefix: accepted[:1]},
		{name: "handshake under load", faults: 1, ticks: 1, menu: handshake, loaded: true, prefix: accepted[:1]},
		{name: "from Accept on", faults: 2, ticks: 1, menu: handshake, prefix: accepted},
		{name: "ending", faults: 2, ticks: 2, menu: ending, prefix: connected},
		{name: "ending after an early completion", faults: 2, ticks: 1, menu: ending, prefix: early},
	} {
		s.faults += *exploreMore
		s.ticks += *exploreMore
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.explore(t, time.Now())
		})
	}
}

func (s *scenario) explore(t *testing.T, start time.Time) {
	lanes := [2]*lane{newLane(0), newLane(1)}
	seen := map[uint64]bool{}
	layer := [][]action{nil}
	edges, deepest, failures, failed := 0, 0, 0, map[string]bool{}
	for depth := 0; len(layer) > 0; depth++ {
		var next [][]action
		for _, path := range layer {
			if *exploreTime > 0 && time.Since(start) > *exploreTime {
				t.Errorf("%d states, %d steps, out of time at depth %d", len(seen), edges, depth)
				return
			}
			x := s.run(lanes, path)
			for i, a := range x.enabled() {
				edges++
				if i > 0 {
					x = s.run(lanes, path)
				}
				x.do(a)
				h := x.hash()
				if seen[h] {
					continue
				}
				seen[h] = true
				child := append(path[:len(path):len(path)], a)
				x.over = x.ended()
				what := x.check()
				if what == "" {
					what = x.resolve()
				}
				if what != "" {
					if !failed[what] {
						failed[what] = true
						t.Errorf("%s after: %s", what, describe(child))
					}
					if failures++; failures > 100 {
						t.Fatal("too many failures")
					}
					continue
				}
				if !x.over {
					next = append(next, child)
				}
			}
		}
		layer, deepest = next, depth
	}
	t.Logf("%d states, %d steps, up to %d in a row, all there are", len(seen), edges, deepest)
}
