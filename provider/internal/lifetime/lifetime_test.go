package lifetime

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

var update = flag.Bool("update", false, "rewrite the golden file")

const (
	start = clock.Time(time.Hour)
	dead  = 5 * time.Second
)

// TestGoldenPhases prints the properties of each phase. A change of the output is a change of the protocol.
func TestGoldenPhases(t *testing.T) {
	var out bytes.Buffer
	for p := range Phase(NumPhases) {
		f := phases[p]
		fmt.Fprintf(&out, "%-10s %-10s repeats %-5s again %-5s attempt %-5v thinking %-5v", p, p.Stage(), opcode(p.Repeated()), opcode(p.AnswerToREQ()),
			p.Attempt(), f.thinking)
		for next := range Phase(NumPhases) {
			if at := p; at.Enter(next) {
				fmt.Fprintf(&out, " -> %s", at)
			}
		}
		out.WriteByte('\n')
	}
	testhelp.Golden(t, "the phases of connections", "testdata/phases.golden", out.Bytes(), *update)
}

func opcode(op wire.Opcode) string {
	if op == 0 {
		return "-"
	}
	return op.String()
}

// Every phase is reachable from the first one, and the end is reachable from every phase. Transitions that are not allowed change
// nothing.
func TestPhasesLeadToAnEnd(t *testing.T) {
	reached, next := map[Phase]bool{Free: true}, []Phase{Free}
	for len(next) > 0 {
		from := next[0]
		next = next[1:]
		ends := from == Free
		for to := range Phase(NumPhases) {
			p := from
			if !p.Enter(to) {
				if p != from {
					t.Errorf("%s became %s, which may not follow", from, p)
				}
				continue
			}
			ends = ends || to == Free || to == Lingering
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
		if !ends {
			t.Errorf("%s does not end", from)
		}
	}
	if len(reached) != NumPhases {
		t.Errorf("only %v are reached", reached)
	}
	if len(Names()) != NumPhases {
		t.Error(Names())
	}
}

// Intervals double up to the longest one, and the last retransmission is not later than the end.
func TestAttemptRepeats(t *testing.T) {
	var a Attempt
	a.Begin(start)
	now, gap, times := start, FirstRetry, 0
	for !a.Silent(now, dead) {
		if due := a.Due(); due != min(now.Add(gap), start.Add(dead)) {
			t.Fatalf("%d: due %v after the last one, want %v", times, due.Sub(now), gap)
		}
		now = a.Due()
		a.Repeat(ReqSent, now, dead, 0)
		gap = min(2*gap, MaxRetry)
		times++
	}
	if now != start.Add(dead) || times != 10 {
		t.Errorf("silent after %v and %d repetitions", now.Sub(start), times)
	}
	a.Repeat(Accepted, now, dead, 0)
	if a.Due() != 0 {
		t.Error("a phase without a message repeats one")
	}
}

// After an answer the retransmissions become probes. A probe without an answer is repeated soon.
func TestAttemptProbes(t *testing.T) {
	var a Attempt
	a.Begin(start)
	now := start.Add(time.Minute)
	a.Probe(now)
	if a.Due() != now.Add(MaxRetry) || a.Silent(now.Add(dead-1), dead) || !a.Silent(now.Add(dead), dead) {
		t.Errorf("%+v", a)
	}
	at := a.Due()
	a.Repeat(RepSent, at, dead, 0)
	if a.Due() != at.Add(FirstRetry) {
		t.Errorf("again after %v", a.Due().Sub(at))
	}
	a.Answered(at)
	if a.Due() != 0 {
		t.Error("an answered message is repeated")
	}
}

// While an application thinks, only the peer's silence ends the attempt. An attempt that has ended has no deadline.
func TestAttemptIsSilent(t *testing.T) {
	a := Attempt{HeardAt: start}
	for p := range Phase(NumPhases) {
		want := clock.Never
		if p == HalfOpen || p == Accepted {
			want = start.Add(dead)
		}
		if at := a.SilentAt(p, dead); at != want {
			t.Errorf("%s: %v", p, at)
		}
	}
	var over *Attempt
	over.Stop()
	if over.Due() != 0 || over.SilentAt(Open, dead) != clock.Never {
		t.Error("an attempt that is over is due")
	}
}

// A RETRY is followed at once, but not twice with one cookie, and not without limit. A RETRY is no sign of life.
func TestAttemptFollowsCookies(t *testing.T) {
	var a Attempt
	a.Begin(start)
	cookie := make([]byte, wire.CookieLen)
	for i := range MaxCookies {
		cookie[0] = byte(i)
		if !a.Follow(cookie, start, dead) || a.Follow(cookie, start, dead) {
			t.Fatalf("cookie %d", i)
		}
	}
	cookie[0] = MaxCookies
	if a.Follow(cookie, start, dead) {
		t.Error("a peer that is never content is followed")
	}
	if a.HeardAt != start || a.Due() != start.Add(FirstRetry) {
		t.Errorf("%+v", a)
	}
}

// An attempt keeps the paths of its newest REQs.
func TestAttemptKeepsPaths(t *testing.T) {
	var a Attempt
	const left = 3 * MaxLeft
	var forgotten []link.Path
	forget := func(p link.Path) { forgotten = append(forgotten, p) }
	for i := range link.Path(left) {
		a.Leave(i+1, forget)
		if kept := int(i) + 1 - len(forgotten); kept > MaxLeft || kept < MaxLeft && len(forgotten) > 0 {
			t.Errorf("%d paths are kept of %d", kept, i+1)
		}
	}
	a.ForgetLeft(forget)
	a.ForgetLeft(forget)
	if len(forgotten) != left || !slices.IsSorted(forgotten) {
		t.Errorf("forgotten: %v, want 1 to %d", forgotten, left)
	}
}

// A peer that has not proven its address gets at most three times as many bytes as it sent, for each REQ.
func TestAttemptIsNoAmplifier(t *testing.T) {
	var a Attempt
	sent := func(n int) (sum int) {
		for range 1000 {
			if a.MayRepeat(n) {
				sum += n
			}
		}
		return sum
	}
	for _, n := range []int{100, wire.MinPacket, wire.MinPacket + 1} {
		a.Asked(start)
		if got := sent(n); got > 3*wire.MinPacket || got <= 3*wire.MinPacket-n {
			t.Errorf("%d bytes in packets of %d", got, n)
		}
	}
	a.Proven = true
	if sent(100) != 100_000 {
		t.Error("a proven peer is limited")
	}
}

func TestEndingRepeatsItsNotice(t *testing.T) {
	var e Ending
	if e.Due(clock.Never) != clock.Never {
		t.Error("something is due before the end")
	}
	e.Notify(start)
	now := start
	for gap := FirstRetry; gap < 8*MaxRetry; gap *= 2 {
		want := now.Add(min(gap, MaxRetry))
		if e.Due(clock.Never) != want || e.Due(now) != now {
			t.Fatalf("due after %v, want %v", e.Due(clock.Never).Sub(now), want.Sub(now))
		}
		now = want
		e.NotifyAgain(now)
	}
	e.GiveUpAt, e.FreeAt = now.Add(time.Millisecond), now.Add(time.Minute)
	if e.Due(clock.Never) != e.GiveUpAt {
		t.Error("giving up is not due")
	}
	e.Noted()
	e.Linger(SayNotice, 0, nil)
	if !e.NoticeAcked || e.Due(clock.Never) != e.FreeAt {
		t.Errorf("%+v", e)
	}
}

// A rejection is repeated for as long as its REQ may be repeated. Any other ended connection lingers as configured.
func TestEndingLingers(t *testing.T) {
	const configured = 2 * time.Second
	for word := Nothing; word <= SayAck; word++ {
		for _, active := range []bool{false, true} {
			want := configured
			if word == SayReject && !active {
				want = dead + MaxRetry
			}
			e := Ending{Word: word}
			if got := e.LingerFor(active, configured, dead); got != want {
				t.Errorf("word %d, active %v: %v", word, active, got)
			}
		}
	}
	var e Ending
	if !e.RepeatWord(start) || e.RepeatWord(start) || !e.RepeatWord(start+1) {
		t.Error("the final answer is not sent once in a poll")
	}
}

func TestLiveness(t *testing.T) {
	var l Liveness
	l.Heard(start)
	quiet := start.Add(10 * time.Second)
	now := l.AskAt(quiet)
	if now != quiet {
		t.Fatal(now)
	}
	for i := range MaxPings {
		if !l.Ask(now, dead) || l.Asked() != i+1 || l.AskAt(quiet) != now.Add(PingInterval) {
			t.Fatalf("%d: %+v", i, l)
		}
		now = now.Add(PingInterval)
	}
	l.Maybe(now)
	if l.Ask(now, dead) || l.HeardAt() != now {
		t.Error("a peer does not count as dead after enough PINGs")
	}
	l.Heard(now)
	if l.Asked() != 0 || l.AskAt(quiet) != quiet || !l.Ask(now, dead) {
		t.Error("a sign of life does not count")
	}
	for range 30 { // the peer may be stalled for half a minute, and got one PING
		if l.Asked() < 30 && !l.Ask(now, 30*time.Second) {
			t.Errorf("dead after %d PINGs", l.Asked())
		}
	}
	if l.Ask(now, 30*time.Second) {
		t.Error("a peer does not count as dead after a silence beyond the allowed stall")
	}
	if QuietFor(dead, 0, 1000, true) != dead || QuietFor(dead, 4000, 1000, true) != dead || QuietFor(dead, 6000, 1000, true) != 6*time.Second {
		t.Error("many connections send PING as often as few")
	}
	if QuietFor(8*time.Second, 0, 1000, false) != 9*time.Second {
		t.Error("both ends ask at the same time")
	}
}

// A proof of life: three PINGs, and then the demand ends.
func TestProof(t *testing.T) {
	p := NewProof(100, 0)
	if p.Given(100) || !p.Given(101) {
		t.Error("a sign of life from before the demand counts")
	}
	now, asked := p.Due(), 0
	for p.Step(now, 1000+uint32(asked)) {
		asked++
		now = p.Due()
	}
	if !p.Denied(1000, 100) || !p.Denied(1002, 99) || p.Denied(1002, 101) || p.Denied(1003, 100) || p.Denied(0, 100) {
		t.Error("an RST is accepted although it quotes no PING of the demand, or the peer has sent a packet")
	}
	if asked != ProofPings || now.Sub(100) != ProofTime {
		t.Errorf("%d PINGs in %v", asked, now.Sub(100))
	}
	if p := NewProof(1, time.Minute); p.each*ProofPings != maxProofTime {
		t.Errorf("a long path gets %v", p.each*ProofPings)
	}
	if NewProof(100, 0).Denied(0, 0) || (*Proof)(nil).Denied(0, 0) {
		t.Error("an RST proves something before a PING left")
	}
	if (*Proof)(nil).Due() != 0 {
		t.Error("something is due without a demand")
	}
}

// PINGs to silent peers are sent at few moments. Each leaves at most one interval late and never early, and never many leave at one
// moment.
func TestQuietPeersAreAskedTogether(t *testing.T) {
	const silence = 10 * time.Second
	for _, c := range []struct{ conns, most, moments int }{{1, 1, 1}, {100, 5, beats + 1}, {1000, 33, beats + 1}, {100_000, perBeat + 1, 100_000/perBeat + 1}} {
		moments := map[clock.Time]int{}
		for i := range c.conns {
			quiet := clock.Time(time.Duration(i) * silence / time.Duration(c.conns))
			at := Together(quiet, silence, uint64(c.conns))
			if at < quiet || at.Sub(quiet) >= silence/beats {
				t.Fatalf("%d connections: silent until %d, asked at %d", c.conns, quiet, at)
			}
			moments[at]++
		}
		most := 0
		for _, n := range moments {
			most = max(most, n)
		}
		if most > c.most || len(moments) > c.moments {
			t.Errorf("%d connections: %d moments, up to %d at one", c.conns, len(moments), most)
		}
	}
}
