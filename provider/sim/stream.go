package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// This file makes worlds with one long stream of small messages, many more than the truncated numbers in a packet can distinguish.
// Some packets are delayed until these numbers have wrapped (PROTOCOL §3.4).

// stream posts Writes or READs of 8 bytes, each with a different value. After each result it checks that the value is in its place.
type stream struct {
	Bulk
	net          *Network
	local, there *provider.Region
	posted, done int
	limit        int
}

// One world in streamEvery is a stream. It has messages between the bounds, and this many outstanding.
const (
	streamEvery  = 50
	streamLeast  = 100_000
	streamMost   = 200_000
	streamSlots  = 1 << 14
	valueLen     = 8
	streamReads  = 16 // outstanding READs
	streamWindow = 65536
)

// newStreamWorld makes a world with a stream.
func newStreamWorld(seed uint64, o Options) *world {
	rng := rand.New(rand.NewPCG(seed, 0x73747265616d))
	kind, depth := provider.KindWrite, 1<<(8+rng.IntN(6))
	c := Conditions{Delay: between(rng, 20*time.Microsecond, 300*time.Microsecond)}
	if rng.IntN(4) == 0 {
		kind, depth = provider.KindRead, streamReads
		c.Delay = between(rng, time.Microsecond, 5*time.Microsecond)
	}
	// A packet may be delayed by one and a half times as many messages as its numbers can distinguish.
	c.LateBy = min(2*c.Delay*time.Duration(streamWindow*3/2/depth), packetLife)
	c.Rates[Late] = 5 + rng.IntN(40)
	for _, f := range []Fault{Loss, Duplicate, Reorder, Mark, Corrupt} {
		if rate := 1 + rng.IntN(30); rng.IntN(2) == 0 && !o.Without.Has(f) {
			c.Rates[f] = rate
		}
	}
	if o.Without.Has(Late) {
		c.Rates[Late] = 0
	}
	packet := maxPackets[1+rng.IntN(4)]
	w := &world{net: NewNetwork(seed, c, o.Trace), rng: rng}
	w.net.tap, w.net.secrets = o.Tap, drawSecrets(seed, o)
	cfg := bulkConfig(packet)
	cfg.Engine.KeyLimits = w.net.secrets.limits
	a, b := w.net.AddHost(cfg), w.net.AddHost(cfg)
	w.stream = w.net.newStream(a, b, kind, depth, streamLeast+rng.IntN(streamMost-streamLeast))
	return w
}

// newStream connects two hosts for a stream, which begins with the next poll.
func (n *Network) newStream(from, to *Host, kind provider.RequestKind, depth, limit int) *stream {
	s := &stream{Bulk: Bulk{Kind: kind, Size: valueLen, Depth: depth}, net: n, limit: limit}
	n.Attach(&s.Bulk, from, to, 7)
	register := func(h *Host) *provider.Region {
		region, err := h.Memory.Register(make([]byte, valueLen*streamSlots), provider.RightLocalWrite|provider.RightRemoteRead|provider.RightRemoteWrite)
		if err != nil {
			n.Fail("register: %v", err)
		}
		return region
	}
	s.local, s.there = register(from), register(to)
	from.app = s.act
	from.Poke()
	return s
}

// over reports whether the stream is complete.
func (s *stream) over() bool { return s == nil || s.done == s.limit }

// ends returns the source and the destination memory of a message.
func (s *stream) ends(number int) (from, to []byte) {
	at := valueLen * (number % streamSlots)
	from, to = s.local.Bytes()[at:][:valueLen], s.there.Bytes()[at:][:valueLen]
	if s.Kind == provider.KindRead {
		from, to = to, from
	}
	return from, to
}

// act takes results and posts as many messages as fit. It reports whether it posted.
func (s *stream) act() (posted bool) {
	var rs [64]provider.Result
	for n := s.cq.Fetch(rs[:]); n > 0; n = s.cq.Fetch(rs[:]) {
		for _, r := range rs[:n] {
			if _, to := s.ends(s.done); r.Outcome != provider.OutcomeSuccess {
				s.net.Fail("message %d of a stream: %v", s.done, r.Outcome)
			} else if got := binary.BigEndian.Uint64(to); got != uint64(s.done)+1 {
				s.net.Fail("message %d of a stream succeeded, and its bytes are of message %d", s.done, int64(got)-1)
			}
			s.done++
		}
	}
	for ; s.posted < s.limit && s.posted-s.done < s.Depth && len(s.net.broken) == 0; s.posted++ {
		from, _ := s.ends(s.posted)
		binary.BigEndian.PutUint64(from, uint64(s.posted)+1)
		at := uint64(valueLen * (s.posted % streamSlots))
		r := provider.Request{Kind: s.Kind, Length: valueLen, Addr: s.there.Base() + at, Token: s.there.Token()}
		if _, o := s.qp.Post(&r, []provider.SGE{{Addr: s.local.Base() + at, Len: valueLen, Token: s.local.Token()}}); o != provider.OutcomeSuccess {
			s.net.Fail("message %d of a stream: post: %v", s.posted, o)
			return posted
		}
		posted = true
	}
	return posted
}
