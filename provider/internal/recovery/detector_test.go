package recovery

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/provider/internal/turn"
)

const us = time.Microsecond

// flight is a connection that sent packets with contents, one every 10 µs.
func flight(t *testing.T, n int) *Sent {
	t.Helper()
	s := new(Sent)
	s.Start(100, 100, make([]Packet, 64))
	for i := range n {
		s.Add(Packet{At: clock.Time(i+1) * clock.Time(10*us), From: space.At(uint32(i), 0), To: space.At(uint32(i+1), 0), Size: 100})
	}
	return s
}

// A packet is lost when a later one has arrived and a round trip and the reordering window have passed. Until then its timer runs.
func TestLostWhenOvertaken(t *testing.T) {
	var d Detector
	s, r := flight(t, 5), RTT{Smoothed: 100 * us, Min: 100 * us}
	now := clock.Time(time.Millisecond)
	if p, _ := d.Lost(s, &r, 0, now); p != nil || d.ReorderAt() != 0 {
		t.Error("something is lost although nothing arrived")
	}
	s.Acknowledge(103)
	now = clock.Time(10 * us).Add(100*us + 25*us)
	var lost []space.Place
	for p, _ := d.Lost(s, &r, 0, now); p != nil; p, _ = d.Lost(s, &r, 0, now) {
		lost = append(lost, p.From)
		s.Mark(p, Lost)
	}
	if !slices.Equal(lost, []space.Place{space.At(0, 0)}) || d.ReorderAt() != now.Add(10*us) {
		t.Errorf("lost %v, next at %v", lost, d.ReorderAt().Sub(now))
	}
}

// The reordering window grows while packets that were declared lost arrive, up to a round trip. It falls back 16 round trips after
// the last of them (PROTOCOL §9.3).
func TestReorderingWindowFollowsLatePackets(t *testing.T) {
	var d Detector
	r := RTT{Smoothed: 300 * us, Min: 200 * us}
	now := clock.Time(time.Hour)
	var got []time.Duration
	for range 6 {
		now = now.Add(400 * us)
		d.InVain(now, &r, 0, now, Lost)
		d.InVain(now, &r, 0, now, Lost) // in the same round trip, so it counts once
		got = append(got, d.window(&r, now))
	}
	if want := []time.Duration{100 * us, 150 * us, 200 * us, 250 * us, 300 * us, 300 * us}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if w := d.window(&r, now.Add(17*300*us)); w != 50*us {
		t.Errorf("%v after a while without late packets", w)
	}
}

// Time-outs are reverted as spurious, once, when a packet that left before them is acknowledged.
func TestTimeOutsInVain(t *testing.T) {
	var d Detector
	var r RTT
	d.Expire(0, 110, time.Second)
	d.Expire(0, 110, time.Second)
	d.Expire(0, 120, time.Second)
	if d.InVain(1, &r, 110, 1, Again) || d.InVain(1, &r, 109, 1, Lost) {
		t.Error("undone by what left after the first time-out, or was not retransmitted for it")
	}
	if !d.InVain(1, &r, 109, 1, Again) || d.InVain(1, &r, 108, 1, Again) {
		t.Error("time-outs are undone once")
	}
	d.Expire(0, 130, time.Second)
	d.Forgive(0)
	if d.InVain(1, &r, 129, 1, Again) {
		t.Error("what was forgiven is undone")
	}
}

// If a peer held a packet for longer than any acknowledgement waits, it was descheduled, and timers allow for a repetition. Another
// connection to the peer knows it, too.
func TestTimersWaitForPeersThatHoldPackets(t *testing.T) {
	var d, other Detector
	var a turn.Absence
	r := RTT{Smoothed: 100 * us}
	now := clock.Time(time.Hour)
	armed := func(d *Detector) time.Duration {
		d.Arm(now, &r, time.Millisecond, true)
		return d.TimerAt().Sub(now)
	}
	want := r.Probe()
	if d.HeldByPeer(8*time.Millisecond, now); armed(&d) != want {
		t.Errorf("%v without an estimate, want %v", armed(&d), want)
	}
	d.WaitFor(&a)
	other.WaitFor(&a)
	if d.HeldByPeer(2*turn.AnswerTime, now); armed(&d) != want {
		t.Errorf("%v after what a peer may wait for, want %v", armed(&d), want)
	}
	if d.HeldByPeer(8*time.Millisecond, now); armed(&d) != 10*time.Millisecond || armed(&other) != 10*time.Millisecond {
		t.Errorf("%v and %v after an absence of 8 ms, want 10 ms", armed(&d), armed(&other))
	}
}

// A probe comes first, and time-outs follow. A peer is dead after a time and a number of time-outs without progress.
func TestPeerIsDead(t *testing.T) {
	var d Detector
	r := RTT{Smoothed: time.Millisecond}
	const dead = time.Second
	d.Restart(0)
	d.Arm(0, &r, 0, true)
	if d.Idle() || d.TimerAt() != clock.Time(r.Probe()) {
		t.Errorf("the probe is due at %v", d.TimerAt())
	}
	late := clock.Time(time.Hour)
	if v := d.Expire(late, 1, dead); v != SendProbe {
		t.Fatalf("first %d", v)
	}
	d.Arm(late, &r, 0, true)
	if d.TimerAt() != late.Add(r.Timeout(0)) {
		t.Errorf("the time-out is due at %v", d.TimerAt())
	}
	for n := 1; n < MinExpiries; n++ {
		if v := d.Expire(late, 1, dead); v != SendAgain || d.Expiries() != n {
			t.Fatalf("time-out %d: %d", n, v)
		}
	}
	if v := d.Expire(late, 1, dead); v != PeerDead {
		t.Errorf("after %d time-outs: %d", d.Expiries(), v)
	}
	d.Progress(late)
	if d.Expiries() != 0 || d.ProgressAt() != late || d.Expire(late, 1, dead) != SendProbe || d.Expire(late, 1, dead) != SendAgain {
		t.Error("progress does not begin anew")
	}
	d.Arm(late, &r, 0, false)
	if !d.Idle() {
		t.Error("a timer runs for nothing")
	}
}

// An acknowledgement of the probe, or of a later packet, triggers another probe. An acknowledgement of an earlier packet does not,
// nor does any after a time-out.
func TestAnswersToProbes(t *testing.T) {
	var d Detector
	r := RTT{Smoothed: time.Millisecond}
	d.Expire(0, 110, time.Second)
	if d.Answered(109) || !d.Answered(111) || d.Answered(111) {
		t.Error("a probe is answered by itself and what left after it, once")
	}
	d.Arm(0, &r, 0, true)
	if d.TimerAt() != clock.Time(r.Probe()) || d.Expire(0, 112, time.Second) != SendProbe {
		t.Error("no other probe follows")
	}
	d.Expire(0, 113, time.Second)
	if d.Answered(113) {
		t.Error("what is answered after a time-out is a probe")
	}
}

// While the path is new and its time-out long, the first probe comes when the measured round trips alone would cause a time-out.
// Each further interval is twice as long.
func TestProbesBeforeTheFirstTimeouts(t *testing.T) {
	const floor = 2 * time.Millisecond
	var d Detector
	r := RTT{Smoothed: time.Millisecond, moves: 1}
	d.Arm(0, &r, floor, true)
	begin, at := d.TimerAt(), []time.Duration(nil)
	for d.Expire(d.TimerAt(), 1, time.Second) == SendProbe {
		now := d.TimerAt()
		at = append(at, now.Sub(begin))
		d.Arm(now, &r, floor, true)
	}
	if want := []time.Duration{0, floor, 3 * floor, 7 * floor, 15 * floor}; !slices.Equal(at, want) || d.TimerAt() != begin.Add(InitialRTO) {
		t.Errorf("probes at %v and a time-out at %v, want %v and %v", at, d.TimerAt().Sub(begin), want, InitialRTO)
	}
	if r.Settle(); probes(&r, floor) != 1 {
		t.Error("a time-out that follows from round trips comes after several probes")
	}
	if r.moves = 0; probes(&r, floor) != 1 {
		t.Error("there are several probes before anything came back")
	}
}

// probes returns how many probes come before a time-out.
func probes(r *RTT, floor time.Duration) (n int) {
	var d Detector
	for d.Arm(0, r, floor, true); d.Expire(d.TimerAt(), 1, time.Second) == SendProbe; d.Arm(d.TimerAt(), r, floor, true) {
		n++
	}
	return n
}

// The time-out doubles up to a second. While the path is new, it is longer.
func TestTimeoutFollowsRoundTrips(t *testing.T) {
	var r RTT
	if r.Timeout(0) != InitialRTO || r.Probe() != InitialRTO || r.Silence(0) != InitialRTO || !r.Fresh() {
		t.Error("before the first sample")
	}
	for _, d := range []time.Duration{0, -1, MaxSample + 1} {
		if r.Sample(d); r.Smoothed != 0 {
			t.Errorf("a sample of %v counts", d)
		}
	}
	r.Sample(400 * us)
	r.Sample(200 * us)
	if r.Min != 200*us || r.Smoothed != 375*us || r.Variance != 200*us {
		t.Errorf("%+v", r)
	}
	if r.Timeout(0) != InitialRTO {
		t.Error("a new path has a short time-out")
	}
	for range SettledAfter {
		r.Progress()
	}
	first := r.Timeout(0)
	if want := 375*us + 4*200*us; first != want || r.Timeout(time.Millisecond*5) != 5*time.Millisecond {
		t.Errorf("%v, want %v", first, want)
	}
	for range 20 {
		r.Expired()
	}
	if r.Timeout(0) != MaxRTO {
		t.Errorf("%v after many time-outs", r.Timeout(0))
	}
	if r.Calm(); r.Timeout(0) != first || r.Fresh() {
		t.Errorf("%v after progress", r.Timeout(0))
	}
}

// Only later packets of the same path show that a packet is lost, until two time-outs have passed (PROTOCOL §11.1).
func TestLanesAreJudgedApart(t *testing.T) {
	sent := clock.Time(10 * us)
	for _, c := range []struct {
		name         string
		acked        uint64
		wait         time.Duration
		lost, silent []uint32
	}{
		{"on the bulk path alone", 107, 2*InitialRTO - 1, []uint32{3, 5}, nil},
		{"on the bulk path alone, long ago", 107, 2 * InitialRTO, []uint32{0, 2, 4, 6, 3, 5}, []uint32{0, 2, 4, 6}},
		{"by the other one", 106, 2*InitialRTO - 1, []uint32{0, 2, 4}, nil},
		{"by the other one, long ago", 106, 2 * InitialRTO, []uint32{0, 2, 4, 3, 5}, []uint32{3, 5}},
	} {
		var d Detector
		r := RTT{Smoothed: 100 * us, Min: 100 * us}
		now := sent.Add(c.wait)
		s := new(Sent)
		s.Start(100, 100, make([]Packet, 64))
		for i := range uint32(8) {
			s.Add(Packet{At: sent, From: space.At(i, 0), To: space.At(i+1, 0), Size: 100, Path: Path(i % 2)})
		}
		s.Acknowledge(101) // the oldest packet of the bulk path
		s.Acknowledge(c.acked)
		var lost, silent []uint32
		for p, alone := d.Lost(s, &r, 0, now); p != nil; p, alone = d.Lost(s, &r, 0, now) {
			lost = append(lost, p.From.Message())
			if alone {
				silent = append(silent, p.From.Message())
			}
			s.Mark(p, Lost)
		}
		if !slices.Equal(lost, c.lost) || !slices.Equal(silent, c.silent) || s.Violation() != "" {
			t.Errorf("overtaken %s: lost %v, want %v, silent %v, want %v; %s", c.name, lost, c.lost, silent, c.silent, s.Violation())
		}
		if left := len(silent) == 0; left != (d.ReorderAt() == sent.Add(2*InitialRTO)) {
			t.Errorf("overtaken %s: looks again %v after sending", c.name, d.ReorderAt().Sub(sent))
		}
	}
}
