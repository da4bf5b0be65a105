package datapath

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/provider"
)

// polls returns how many of n polls look into an empty socket.
func (c *counted) polls(n int) (looks int) {
	for range n {
		if c.due() {
			c.looked(0, false)
			looks++
		}
	}
	return looks
}

// A socket without packets is polled rarely, and at each poll while a packet that was counted has not been received.
func TestCountedSocket(t *testing.T) {
	arrived := uint64(0)
	c := &counted{count: func() uint64 { return arrived }}
	const many = 20 * mostSkipped
	if looks := c.polls(many); looks > many/100 || c.passes() {
		t.Fatalf("%d of %d polls look into a socket without packets", looks, many)
	}
	arrived += 2
	if !c.passes() || c.polls(3) != 3 {
		t.Error("a poll does not look for a packet that was counted")
	}
	c.looked(1, true)
	if c.polls(1) != 1 || c.passes() {
		t.Error("the second packet is not looked for")
	}
	c.looked(1, false)
	if looks := c.polls(many); looks > many/100 {
		t.Errorf("%d of %d polls look after all packets were received", looks, many)
	}
}

// Packets that were counted and then dropped are not looked for for ever, also if others come meanwhile.
func TestCountedPacketsAreLost(t *testing.T) {
	arrived := uint64(7) // before the first check
	c := &counted{count: func() uint64 { return arrived }}
	c.polls(hotLooks / 2)
	arrived++
	if c.polls(hotLooks / 2); c.owed != 1 {
		t.Errorf("%d packets are owed, want the last one", c.owed)
	}
	const many = 20 * mostSkipped
	if looks := c.polls(many); looks > many/100+2*hotLooks || c.owed != 0 {
		t.Errorf("%d of %d polls look for lost packets, %d are owed", looks, many, c.owed)
	}
}

// A packet that the program does not see is found, and others are expected soon after it.
func TestCountedMissesPackets(t *testing.T) {
	c := &counted{count: func() uint64 { return 0 }}
	c.polls(20 * mostSkipped)
	for n := 0; !c.due(); n++ {
		if n > mostSkipped {
			t.Fatal("the socket is not polled any more")
		}
	}
	c.looked(1, false)
	if c.polls(4) < 4 {
		t.Error("no other packet is expected")
	}
}

// At tcx the program counts each GSO batch on the bulk path once, as the socket returns it, and the socket is polled only for these.
func TestCountedBulk(t *testing.T) {
	_, a, b := newBulkPairOn(t, plan.TCX)
	path, _ := a.BulkPath(b.device.bulk.local)
	c := b.bulkIn.counted
	for round := range 3 {
		for range 20 * mostSkipped {
			b.bulkIn.ready()
		}
		if c.quiet < mostSkipped {
			t.Errorf("round %d: a socket without packets is polled: %d polls since the last packet", round, c.quiet)
		}
		const batches = 4
		for range batches {
			a.Transmit(a.bulkPackets(t, path, 20, 1000))
		}
		if got := b.bulkArrivals(t, 20*batches, func(*provider.RxPacket) {}); got != 20*batches {
			t.Fatalf("round %d: %d packets arrived", round, got)
		}
		if want := uint64((round + 1) * batches); c.count() != want || c.passed.Load() != want || c.owed != 0 {
			t.Errorf("round %d: %d batches are counted, %d seen, %d owed, want %d", round, c.count(), c.passed.Load(), c.owed, want)
		}
	}
}
