package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Fault is a kind of fault in a simulated world. A world has a rate for each kind, and counts how often it happened.
type Fault uint8

// Faults of the network, of links and hosts, and of hostile peers. Rates are parts in 10,000: of batches for RingFull, Again and
// Busy, of paths for NoPath, and otherwise of packets unless noted.
const (
	Loss Fault = iota
	Burst
	Duplicate
	Reorder // delayed by up to two delays and 20 µs
	Late    // delayed by 100 delays or by up to LateBy, at most packetLife
	Corrupt // one to three bits are flipped
	Truncate
	Mark         // a router marks the packet (CE)
	UnequalMTU   // the ends of a session accept packets of different sizes: per session
	Partition    // two hosts cannot reach each other for up to 400 ms: per random fault
	Pause        // a host does not run for up to 100 ms: per random fault
	Restart      // a host restarts and has lost all state: per random fault
	ClockJump    // a host's clock jumps by up to 500 ms: per random fault
	RingFull     // no transmit frame is free
	Again        // EAGAIN: the device accepts nothing for up to 1 ms, and afterwards only when pushed
	Busy         // EBUSY: the device refuses the whole batch
	PathMTU      // a path changes its MTU in one direction: per random fault; counts packets that are too long
	LinkMTU      // a host's link changes its MTU, and the host is notified: per random fault
	Overflow     // the receive ring is full: per host that has a small one
	DeadPath     // equal-cost paths from one host to another lose everything for up to a second: per random fault; counts lost packets
	OneWayLoss   // packets that a host sends are lost: per host
	Held         // jitter keeps the order of a path: per world; counts packets that wait for an earlier one
	Drift        // a host's clock is up to 100 ppm too fast or too slow: per host
	Tail         // the queue in front of a host is full: per host that has one
	Police       // a policer in front of a host drops: per host that has one
	CrossTraffic // a TCP flow shares the link of a host: per host; counts its packets
	NoPath       // a link provides no path, because descriptors are exhausted or the source port is taken
	DaySet       // a host's wall clock is set, so that arrival times are unknown for a second: per random fault
	Garble       // packets from one host to another are damaged for up to 400 ms: all, long ones, or those in GSO batches: per random fault; counts packets
	Revoke       // a grant of memory ends while requests use it: per session; counts grants
	LinkDown     // a host's link carries nothing and gives no path for up to 400 ms: per random fault; counts packets
	LinkGone     // a host's link ends for good, and its engines with it; another one is there up to 20 s later: per random fault
	LaneLoss     // packets on a bulk path are lost; a GSO batch is lost as a whole
	LaneDead     // a bulk path loses all packets, or all above some size, for up to 5 s or forever: per random fault; counts packets
	LaneShut     // a host stops to send by its bulk path: per random fault
	Split        // the network between two hosts begins to split GSO batches, or stops: per random fault; counts long packets
	WrongToken   // from here on: faults of a hostile peer, whose packets are intact
	Overrun      // beyond the bounds of memory, of a receive, or of a READ
	Replay       // of a packet, or of its operations under a new number
	BadLength    // lengths that do not fit the packet
	ForgedAck    // of packets that were not sent, or did not arrive
	ForgedFields // any other field
	OtherLane    // a packet by the bulk path that belongs to the ND port
	Flood        // a series of control packets, most of which request an answer
	WrongKey     // another key generation: too early, over, or never to come
	WrongState   // a control message in place of a packet, whatever the state
	numFaults
)

const firstHostile = WrongToken

var faultNames = [numFaults]string{
	"loss", "burst", "duplicate", "reorder", "late", "corrupt", "truncate", "mark", "asymmetric MTU", "partition", "pause", "restart",
	"clock jump", "ring full", "EAGAIN", "EBUSY", "path MTU", "link MTU", "overflow", "dead path", "one-way loss", "in-order jitter", "drift", "tail drop", "policer", "cross traffic", "no path", "day set", "garble", "revoke", "link down", "link gone", "lane loss", "dead lane", "lane shut", "split", "wrong token", "overrun", "replay", "bad length", "forged ACK",
	"forged fields", "other lane", "flood", "wrong key", "wrong state",
}

// worst are the highest rates drawn.
var worst = Rates{
	Loss: 1000, Burst: 100, Duplicate: 1000, Reorder: 3000, Late: 200, Corrupt: 300, Truncate: 100, Mark: 2000, UnequalMTU: 10000,
	Partition: 5000, Pause: 5000, Restart: 5000, ClockJump: 5000, RingFull: 2000, Again: 500, Busy: 300,
	PathMTU: 10000, LinkMTU: 10000, Overflow: 5000, DeadPath: 10000,
	OneWayLoss: 5000, Held: 5000, Drift: 10000, Tail: 3000, Police: 2000, CrossTraffic: 5000, NoPath: 1000, DaySet: 5000, Garble: 10000, Revoke: 4000,
	LinkDown: 5000, LinkGone: 3000,
	LaneLoss: 300, LaneDead: 10000, LaneShut: 3000, Split: 5000,
	WrongToken: 1000, Overrun: 1000, Replay: 2000, BadLength: 500, ForgedAck: 2000, ForgedFields: 1000, OtherLane: 1000, Flood: 100, WrongKey: 500, WrongState: 300,
}

// ofLanes reports whether the fault happens only to bulk paths.
func (f Fault) ofLanes() bool { return f >= LaneLoss && f <= LaneShut || f == OtherLane }

// drawnApart reports whether the fault is drawn from a separate generator, so that it does not change what a seed draws otherwise: drawFloods,
// drawGrants, drawLinks, newWorld.
func (f Fault) drawnApart() bool {
	return f == DaySet || f == Split || f >= Flood || f == Revoke || f == LinkDown || f == LinkGone
}

// String returns the name of the fault.
func (f Fault) String() string { return faultNames[f] }

// Faults is a set of faults.
type Faults uint64

// Has reports whether f is in the set.
func (s Faults) Has(f Fault) bool { return s&(1<<f) != 0 }

// With returns the set with f added.
func (s Faults) With(f Fault) Faults { return s | 1<<f }

// String lists the set in the format of ParseFaults.
func (s Faults) String() string {
	var names []string
	for f := range numFaults {
		if s.Has(f) {
			names = append(names, f.String())
		}
	}
	return strings.Join(names, ",")
}

// ParseFaults parses a comma-separated list of names.
func ParseFaults(text string) (Faults, error) {
	var s Faults
	for name := range strings.SplitSeq(text, ",") {
		found := name == ""
		for f := range numFaults {
			if f.String() == name {
				s, found = s.With(f), true
			}
		}
		if !found {
			return 0, fmt.Errorf("sim: no fault is called %q", name)
		}
	}
	return s, nil
}

// Rates is how often each fault happens.
type Rates [numFaults]int

// Counts is how often each fault has happened.
type Counts [numFaults]uint64

// String lists the faults and their counts, one a line.
func (c *Counts) String() string {
	var b strings.Builder
	for f := range numFaults {
		fmt.Fprintf(&b, "%-14s %12d\n", f, c[f])
	}
	return b.String()
}

// Conditions describe the network.
type Conditions struct {
	Delay     time.Duration // one way
	Jitter    time.Duration // random addition, which also reorders packets
	InOrder   bool          // packets of one path are never reordered
	LaneDelay time.Duration // one way, by bulk paths; zero if no host has one
	LateBy    time.Duration // longest delay of a late packet; zero for 100 delays
	BurstLen  time.Duration // longest duration of a burst, which loses all packets
	Rates     Rates
}

// drawConditions draws a network. A quarter have no faults; all others have several at once. A quarter have a hostile host.
func drawConditions(rng *rand.Rand) Conditions {
	c := Conditions{Delay: between(rng, time.Microsecond, 100*time.Microsecond), BurstLen: between(rng, 0, 10*time.Millisecond)}
	if rng.IntN(8) == 0 {
		c.Delay = between(rng, time.Millisecond, 50*time.Millisecond)
	}
	clean, honest := rng.IntN(4) == 0, rng.IntN(4) > 0
	for f := range numFaults {
		if f.ofLanes() || f.drawnApart() {
			continue // drawn by drawLanes, drawFloods, drawGrants, drawLinks
		}
		rate := 1 + rng.IntN(worst[f])>>rng.IntN(4)
		if rng.IntN(3) > 0 || clean && f < firstHostile || honest && f >= firstHostile {
			continue
		}
		c.Rates[f] = rate
	}
	jitter := between(rng, 0, c.Delay*time.Duration(rng.IntN(4)))
	if !clean {
		c.Jitter = jitter
	}
	c.InOrder = chance(rng, c.Rates[Held])
	return c
}

// chance draws an event with a probability of parts in 10,000.
func chance(rng *rand.Rand, parts int) bool { return parts > 0 && rng.IntN(10000) < parts }

// between draws a duration from [lo, hi).
func between(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(rng.Int64N(int64(hi-lo)))
}

// strikes draws whether a fault happens now, and counts it.
func (n *Network) strikes(rng *rand.Rand, f Fault) bool {
	if !chance(rng, n.Rates[f]) {
		return false
	}
	n.Happened[f]++
	return true
}
