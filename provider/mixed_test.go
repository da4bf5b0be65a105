package provider

import (
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/congestion"
)

// mixed is a fleet whose first connection moves 4 MiB, and whose second has sent something small.
func mixed(t *testing.T) (f *fleet, small func(side int)) {
	t.Helper()
	f = newFleet(t, 2)
	f.eng[0].controller = &congestion.Fixed{Packets: 1000}
	small = func(side int) {
		t.Helper()
		_, o := f.write(side, 0, 8).post(f.qps[side][1])
		f.must(o)
	}
	_, o := f.write(0, 0, 4<<20).post(f.qps[0][0])
	f.must(o)
	f.turn()
	small(0)
	for range 8 { // the message is acknowledged
		f.turn()
	}
	f.outcomes(0, OutcomeSuccess)
	f.now += 1000
	return f, small
}

// A post of a small message sends that message, and leaves long messages to the next poll.
func TestPostsBesideStreams(t *testing.T) {
	f, small := mixed(t)
	e := f.eng[0]
	f.link[0].peer.count = 0 // packets in flight are lost
	small(0)
	if busy := e.Serve(f.now, f.qps[0][1]); !busy || f.link[1].count != 1 || e.out.Bytes() > 200 {
		t.Errorf("a post sent %d packets, %d bytes, and leaves more to do: %v", f.link[1].count, e.out.Bytes(), busy)
	}
	f.now += 1000
	if e.Run(f.now); e.out.Bytes() < smallShare/2 {
		t.Errorf("the next poll sent %d bytes", e.out.Bytes())
	}
}

// A small message leaves before a share of a long message is built.
func TestSmallLeavesBeforeShares(t *testing.T) {
	f, small := mixed(t)
	var batches []int
	f.link[1].count = 0
	f.link[1].wake = func() {
		batches = append(batches, f.link[1].count)
		f.link[1].count = 0
	}
	small(0)
	f.eng[0].Run(f.now)
	if len(batches) != 2 || batches[0] != 1 || batches[1] < 8 {
		t.Errorf("packets left in batches of %d, want one of 1 and one of many", batches)
	}
}

// A poller gets an answer before a share of a long message is sent. Its next poll sends the share.
func TestAnswersBeforeShares(t *testing.T) {
	f, small := mixed(t)
	e := f.eng[0]
	f.fill(1, 0, 8, 7)
	small(1)
	f.eng[1].Run(f.now)
	if busy := e.Glance(f.now); !busy || e.out.Bytes() > 0 || !f.all(0, 0, 8, 7) {
		t.Errorf("the answer is there: %v; %d bytes left, and there is more to do: %v", f.all(0, 0, 8, 7), e.out.Bytes(), busy)
	}
	f.now += 1000
	if e.Glance(f.now); e.out.Bytes() < smallShare/2 {
		t.Errorf("the next poll sent %d bytes", e.out.Bytes())
	}
}

// If only long messages are in flight, nothing is deferred: a poll that receives an acknowledgement also sends.
func TestStreamsAlonePutNothingOff(t *testing.T) {
	f := newFleet(t, 1)
	_, o := f.write(0, 0, 4<<20).post(f.qps[0][0])
	f.must(o)
	var sent []int
	for range 20 {
		f.now += 1000
		f.eng[0].Glance(f.now)
		if f.eng[0].putOff {
			t.Fatal("a poll with a single stream deferred work")
		}
		sent = append(sent, f.eng[0].out.Bytes())
		f.eng[1].Run(f.now)
	}
	if slices.Max(sent) == 0 {
		t.Error("nothing was sent")
	}
}
