package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Fault is something that goes wrong in a simulated world. Each has its own rate in a world, and a count of how often it
// really happened.
type Fault uint8

// The faults: of the network, of links and hosts, and of hostile peers. Rates are parts in 10,000 of packets, of batches for
// RingFull, Again and Busy, of paths for NoPath, and of what is said beside the others.
const (
	Loss Fault = iota
	Burst
	Duplicate
	Reorder // held back for up to two delays and 20 µs
	Late    // held back for 100 delays or for up to LateBy, at most packetLife
	Corrupt // one to three bits are turned over
	Truncate
	Mark         // a router marks the packet (CE)
	UnequalMTU   // the ends of a session take packets of different lengths: per session
	Partition    // two hosts do not reach each other for up to 400 ms: per random fault
	Pause        // a host loses its core for up to 100 ms: per random fault
	Restart      // a host starts anew and has forgotten everything: per random fault
	ClockJump    // a host's clock leaps by up to 500 ms: per random fault
	RingFull     // no transmit frame is free
	Again        // EAGAIN: the device takes nothing for up to 1 ms, and nothing later unless it is pushed
	Busy         // EBUSY: the device does not take the batch at all
	PathMTU      // a path carries other lengths than before, in one direction: per random fault; counted are the packets that are too long
	LinkMTU      // a host's link does, and the host is told: per random fault
	Overflow     // the receive ring is full: per host that has a small one
	DeadPath     // paths of equal cost from one host to another carry nothing for up to a second: per random fault; counted are the packets that took one
	OneWayLoss   // of what a host sends, and of nothing else: per host
	Held         // jitter keeps the order of a path: per world; counted are the packets that wait for one before them
	Drift        // a host's clock is up to 100 ppm too fast or too slow: per host
	Tail         // a queue in front of a host is full: per host that has one
	Police       // a policer in front of a host drops: per host that has one
	CrossTraffic // a TCP flow shares the link of a host: per host; counted are its packets
	NoPath       // a link gives no path: no descriptor is left, or the source port is taken
	DaySet       // a host's time of day is set, so that for a second it does not know when packets came: per random fault
	Garble       // packets from one host to another are damaged, all of them, the long ones or those in runs, for up to 400 ms: per random fault; counted are the packets
	Revoke       // memory is granted no more while requests use it: per session; counted are the grants
	LaneLoss     // of what goes by a bulk lane: a run is lost as a whole
	LaneDead     // a bulk lane loses all packets, or all above some size, for up to 5 s or for good: per random fault; counted are the packets
	LaneShut     // a host sends nothing by its bulk lane any more: per random fault
	WrongToken   // from here on: by a hostile peer, whose packets are intact
	Overrun      // of memory, of a receive, of a READ
	Replay       // of a packet, or of its operations under a new number
	BadLength    // lengths that do not fit the packet
	ForgedAck    // of packets that were not sent, or have not come
	ForgedFields // any other field
	OtherLane    // a packet by the bulk lane that belongs to the ND port
	Flood        // a train of control packets, most of which ask for an answer each
	numFaults
)

const firstHostile = WrongToken

var faultNames = [numFaults]string{
	"loss", "burst", "duplicate", "reorder", "late", "corrupt", "truncate", "mark", "asymmetric MTU", "partition", "pause", "restart",
	"clock jump", "ring full", "EAGAIN", "EBUSY", "path MTU", "link MTU", "overflow", "dead path", "one-way loss", "in-order jitter", "drift", "tail drop", "policer", "cross traffic", "no path", "day set", "garble", "revoke", "lane loss", "dead lane", "lane shut", "wrong token", "overrun", "replay", "bad length", "forged ACK",
	"forged fields", "other lane", "flood",
}

// worst are the highest rates that are drawn.
var worst = Rates{
	Loss: 1000, Burst: 100, Duplicate: 1000, Reorder: 3000, Late: 200, Corrupt: 300, Truncate: 100, Mark: 2000, UnequalMTU: 10000,
	Partition: 5000, Pause: 5000, Restart: 5000, ClockJump: 5000, RingFull: 2000, Again: 500, Busy: 300,
	PathMTU: 10000, LinkMTU: 10000, Overflow: 5000, DeadPath: 10000,
	OneWayLoss: 5000, Held: 5000, Drift: 10000, Tail: 3000, Police: 2000, CrossTraffic: 5000, NoPath: 1000, DaySet: 5000, Garble: 10000, Revoke: 4000,
	LaneLoss: 300, LaneDead: 10000, LaneShut: 3000,
	WrongToken: 1000, Overrun: 1000, Replay: 2000, BadLength: 500, ForgedAck: 2000, ForgedFields: 1000, OtherLane: 1000, Flood: 100,
}

// ofLanes reports whether the fault happens to bulk lanes alone.
func (f Fault) ofLanes() bool { return f >= LaneLoss && f <= LaneShut || f == OtherLane }

// drawnApart reports whether the fault is drawn by itself, so that a world without it stays what it is: drawFloods, drawGrants.
func (f Fault) drawnApart() bool { return f == DaySet || f == Flood || f == Revoke }

// String names the fault.
func (f Fault) String() string { return faultNames[f] }

// Faults is a set of faults.
type Faults uint64

// Has reports whether f is in the set.
func (s Faults) Has(f Fault) bool { return s&(1<<f) != 0 }

// With adds a fault.
func (s Faults) With(f Fault) Faults { return s | 1<<f }

// String lists the set as ParseFaults reads it.
func (s Faults) String() string {
	var names []string
	for f := range numFaults {
		if s.Has(f) {
			names = append(names, f.String())
		}
	}
	return strings.Join(names, ",")
}

// ParseFaults reads names with commas between them.
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

// Rates say how often each fault happens.
type Rates [numFaults]int

// Counts say how often each fault happened.
type Counts [numFaults]uint64

// String lists the faults and how often they happened, one a line.
func (c *Counts) String() string {
	var b strings.Builder
	for f := range numFaults {
		fmt.Fprintf(&b, "%-14s %12d\n", f, c[f])
	}
	return b.String()
}

// Conditions are what a network does to packets.
type Conditions struct {
	Delay     time.Duration // one way
	Jitter    time.Duration // added at random, so it also reorders
	InOrder   bool          // no packet overtakes another one of its path
	LaneDelay time.Duration // one way, by bulk lanes; zero where no host has one
	LateBy    time.Duration // a late packet is held back for so long at most; zero for 100 delays
	BurstLen  time.Duration // a burst takes all packets for this long at most
	Rates     Rates
}

// drawConditions chooses a network: a quarter are clean, the others bad in several ways at once. A quarter have a hostile host.
func drawConditions(rng *rand.Rand) Conditions {
	c := Conditions{Delay: between(rng, time.Microsecond, 100*time.Microsecond), BurstLen: between(rng, 0, 10*time.Millisecond)}
	if rng.IntN(8) == 0 {
		c.Delay = between(rng, time.Millisecond, 50*time.Millisecond)
	}
	clean, honest := rng.IntN(4) == 0, rng.IntN(4) > 0
	for f := range numFaults {
		if f.ofLanes() || f.drawnApart() {
			continue // drawLanes, drawFloods, drawGrants
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

// chance draws an event that happens in parts of 10,000 cases.
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
