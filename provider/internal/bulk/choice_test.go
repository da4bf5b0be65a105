package bulk

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The bulk path carries packets up to the size that a probe has confirmed (PROTOCOL §11.1).
func TestProvenBySize(t *testing.T) {
	var c Choice
	now := clock.Time(time.Hour)
	if c.Carries(1) || !c.ProbeDue(1472, now) {
		t.Error("an unconfirmed bulk path carries packets, or needs no probe")
	}
	nonce, ok := c.Probe(1472, now, time.Millisecond, 7)
	if !ok || nonce != 7 || c.ProbeDue(1472, now) || c.ProbeDue(1472, now.Add(minProbeTimer-1)) || !c.ProbeDue(1472, now.Add(minProbeTimer)) {
		t.Error("the probe is repeated at the wrong time")
	}
	if c.Answered(8, 1472) || c.Answered(7, 1471) || c.Carries(1472) {
		t.Error("the answer to another probe counts")
	}
	if !c.Answered(7, 1472) || !c.Carries(1472) || c.Carries(1473) || c.ProbeDue(1472, now) || !c.ProbeDue(1473, now) {
		t.Error("the answer does not count as it should")
	}
	if c.Answered(7, 1472) {
		t.Error("one answer counts twice")
	}
}

// After unanswered probes the bulk path pauses. Each pause is twice as long, up to a limit.
func TestUnansweredProbes(t *testing.T) {
	var c Choice
	now := clock.Time(time.Hour)
	for want := firstPause; want <= 2*mostPause; want *= 2 {
		for try := range maxProbes {
			if nonce, ok := c.Probe(1472, now, 0, uint32(try)); !ok || nonce != 0 {
				t.Fatalf("try %d: nonce %d, %v", try, nonce, ok)
			}
			now = now.Add(minProbeTimer)
		}
		if _, ok := c.Probe(1472, now, 0, 0); ok {
			t.Fatal("a probe too many")
		}
		if c.Why() != Unanswered {
			t.Error("left for", c.Why())
		}
		pause := min(want, mostPause)
		if c.ProbeDue(1472, now.Add(pause-1)) || !c.ProbeDue(1472, now.Add(pause)) {
			t.Errorf("the pause is not %v", pause)
		}
		now = now.Add(pause)
	}
}

// TestRestRemembersFailures: a connection that becomes idle keeps its pause and its count of unanswered probes. It does not keep
// the confirmation of its bulk path.
func TestRestRemembersFailures(t *testing.T) {
	now := clock.Time(100*time.Hour + 300*time.Millisecond)
	var c Choice
	for range maxProbes - 1 {
		c.Probe(1472, now, 0, 1)
		now = now.Add(minProbeTimer)
	}
	now = now.Add(5 * time.Second)
	c, _ = RestOf(&c, &Long{}).Resume(now, false)
	if nonce, ok := c.Probe(1472, now, 0, 9); !ok || nonce != 9 {
		t.Errorf("the last probe: nonce %d, %v", nonce, ok)
	}
	if _, ok := c.Probe(1472, now, 0, 0); ok {
		t.Fatal("a probe too many")
	}
	for range 9 { // up to the longest pause
		c.leave(now, Lossy)
	}
	c, _ = RestOf(&c, &Long{}).Resume(now.Add(2*time.Second), false)
	if c.ProbeDue(1472, now.Add(mostPause-1)) || !c.ProbeDue(1472, now.Add(mostPause+time.Second)) || c.pause != mostPause {
		t.Errorf("the bulk path is left for %v, and for %v the next time", c.at.Sub(now), 2*c.pause)
	}
	if c, _ = RestOf(&c, &Long{}).Resume(now.Add(time.Hour), false); !c.ProbeDue(1472, now.Add(time.Hour)) || c.pause != mostPause {
		t.Error("a pause that is over is not forgotten, or its length is")
	}
	c = proven(now)
	if r := RestOf(&c, &Long{proof: proof{proven: 60000}}); r != (Rest{}) {
		t.Errorf("of a bulk path that never failed there is %+v", r)
	}
	if c, l := (Rest{}).Resume(now, false); c != (Choice{}) || l != (Long{}) {
		t.Errorf("after no failure it resumes %+v, %+v", c, l)
	}
}

func proven(now clock.Time) (c Choice) {
	nonce, _ := c.Probe(1472, now, 0, 1)
	c.Answered(nonce, 1472)
	return c
}

// A time-out ends the use of the bulk path, unless the time-out was spurious.
func TestTimeOuts(t *testing.T) {
	now := clock.Time(time.Hour)
	c := proven(now)
	if s := c.State(true); s != "proven" || c.State(false) != "" {
		t.Errorf("the state of a confirmed bulk path is %q", s)
	}
	if !c.TimedOut(now) || c.Why() != Silent || c.State(true) != "unproven" || c.Carries(1) || c.TimedOut(now) || c.ProbeDue(1472, now.Add(firstPause-1)) {
		t.Error("the bulk path is still used, or left twice, or probed at once")
	}
	if c.InTime(); !c.Carries(1472) {
		t.Error("the bulk path is not used again")
	}
	if c.InTime(); !c.Carries(1472) {
		t.Error("the second one that was late harms")
	}
}

// A bulk path that loses most packets is no longer used. A bulk path that loses half of them, like an overflowing queue, stays in
// use.
func TestLossy(t *testing.T) {
	now := clock.Time(time.Hour)
	for _, k := range []struct {
		of, lost int
		leaves   bool
	}{{4, 3, true}, {4, 2, false}, {4, 0, false}} {
		c, left := proven(now), false
		for i := range 2 * judged {
			if i%k.of < k.lost {
				left = c.Lost(now) || left
			} else {
				left = c.Came(now) || left
			}
		}
		if left != k.leaves || left && c.Why() != Lossy || c.Carries(1472) == k.leaves {
			t.Errorf("%d of %d lost: left %v", k.lost, k.of, k.leaves)
		}
	}
}

// A few full packets use the bulk path only if more data wait behind them. A sequence of full packets ends with mostly empty
// packets, and when nothing is in flight. Short packets follow contents in flight on the bulk path.
func TestRows(t *testing.T) {
	now := clock.Time(time.Hour)
	c := proven(now)
	takes := func(size int, full, alone, behind bool) bool {
		return c.Takes(Packet{Size: size, Room: 1400 - size, Full: full, Alone: alone, Behind: behind})
	}
	n := 0
	for !takes(1400, true, false, false) {
		n++
	}
	if n*1400 >= rowBytes || (n+1)*1400 < rowBytes {
		t.Errorf("bulk behind %d packets", n)
	}
	if takes(100, false, false, false) || takes(1400, true, false, false) {
		t.Error("a sequence continues behind a packet that is not full")
	}
	if !takes(100, false, false, true) {
		t.Error("a short packet overtakes")
	}
	for range n + 1 {
		takes(1400, true, false, false)
	}
	if takes(1400, true, true, false) {
		t.Error("a sequence continues when nothing is in flight")
	}
	for waits, want := range map[int]bool{rowBytes - 1: false, rowBytes: true} {
		if got := c.Takes(Packet{Size: 1400, Full: true, Alone: true, Waits: waits}); got != want {
			t.Errorf("the first of %d bytes that leave at once: bulk %t", waits, got)
		}
	}
	if c.Takes(Packet{Size: 100, Alone: true, Waits: 1 << 20}) {
		t.Error("a packet that was not filled is bulk")
	}
	c.always = true
	if !takes(100, false, true, false) || takes(1473, true, false, false) {
		t.Error("the choice always is not respected, or exceeds the confirmed size")
	}
}

// Lists of packets whose last one is not full use the bulk path. Packets that are mostly empty do not.
func TestRowsOfPacketsWithRoom(t *testing.T) {
	now := clock.Time(time.Hour)
	c := proven(now)
	takes := func(size int, full, behind bool) bool {
		return c.Takes(Packet{Size: size, Room: 1400 - size, Full: full, Behind: behind})
	}
	for range 100 { // the first packet of each list seems to be full
		takes(1400, true, false)
		if takes(600, false, false) {
			t.Error("packets that are less than half full are bulk")
		}
	}
	rows := 0
	for range 100 { // lists of five packets, the last of which is nearly empty
		for i := range 5 {
			if takes(1400, true, false) {
				rows++
			}
			if i == 4 {
				takes(100, false, true)
			}
		}
	}
	if rows < 350 {
		t.Errorf("%d of 500 packets of lists are bulk, want most", rows)
	}
	for range 20 {
		takes(1400, true, false)
		takes(600, false, true)
	}
	if takes(1400, true, false) {
		t.Error("packets that are less than half full go on being bulk")
	}
}

// A path counts as used for some time after a packet.
func TestUsed(t *testing.T) {
	var c Choice
	now := clock.Time(time.Hour)
	if c.Used(now) || !c.Left(now) || c.Left(now.Add(usedFor)) || !c.Left(now.Add(3*usedFor)) {
		t.Error("the first packet after a pause is not reported")
	}
}
