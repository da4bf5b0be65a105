package guard

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

const start = clock.Time(time.Hour)

func TestBucket(t *testing.T) {
	now := start
	for _, rate := range []int{1, 5, 100, 32768} {
		var b Bucket
		allowed, begin := 0, now
		for now.Sub(begin) < 10*time.Second {
			for range rate/50 + 1 {
				if b.Allow(now, rate) {
					allowed++
				}
			}
			now = now.Add(10 * time.Millisecond)
		}
		if allowed > 11*rate || allowed < 9*rate {
			t.Errorf("%d in 10 s at %d a second", allowed, rate)
		}
	}
}

// A source that asks a little faster than tokens are refilled gets tokens at the refill rate: fractions of a token are not lost.
func TestBucketKeepsParts(t *testing.T) {
	for _, rate := range []int{5, 100, 256, 1000, 32768} {
		for _, faster := range []time.Duration{101, 110, 150, 190, 350} { // percent of the interval between refills
			var b Bucket
			gap := time.Second * 100 / (time.Duration(rate) * faster)
			now, allowed := start, 0
			for now.Sub(start) < 20*time.Second {
				if b.Allow(now, rate) {
					allowed++
				}
				now = now.Add(gap)
			}
			asked := int(20 * time.Second / gap)
			if want := min(21*rate, asked); allowed > want+1 || allowed < want*99/100-1 {
				t.Errorf("asked %d %% of %d a second for 20 s, allowed %d, want %d", faster, rate, allowed, want)
			}
		}
	}
}

// All 2^64 addresses of an IPv6 host's network are one source.
func TestAddressesOfOneHostAreOneSource(t *testing.T) {
	a, b := [16]byte{0: 0x20, 1: 1, 7: 9, 15: 1}, [16]byte{0: 0x20, 1: 1, 7: 9, 8: 77, 15: 2}
	if SourceOf(a) != SourceOf(b) {
		t.Error("addresses of one prefix are two sources")
	}
	v4 := func(last byte) [16]byte { return [16]byte{10: 0xff, 11: 0xff, 12: 192, 14: 2, 15: last} }
	if SourceOf(v4(1)) == SourceOf(v4(2)) {
		t.Error("two IPv4 addresses are one source")
	}
}

// Each source counts what its connections have. A source without connections is not stored.
func TestSourcesAgainstModel(t *testing.T) {
	s := New(rand.New(rand.NewPCG(1, 1))).Sources
	rng := rand.New(rand.NewPCG(2, 2))
	type connection struct {
		of    Source
		share Share
	}
	conns := make([]connection, 3000) // enough for some sources to exceed what counts of them
	for i := range conns {
		conns[i].of = Source{15: byte(i % 7)}
	}
	check := func() {
		t.Helper()
		model := map[Source]Usage{}
		unproven := 0
		for _, c := range conns {
			u := model[c.of]
			switch c.share {
			case ShareHalfOpen:
				if u.HalfOpen++; u.HalfOpen <= SourceUnproven {
					unproven++
				}
			case ShareEstablished:
				u.Established++
			case ShareNone:
				continue
			}
			model[c.of] = u
		}
		for i := range 7 {
			if of := (Source{15: byte(i)}); s.Usage(of) != model[of] {
				t.Fatalf("source %d has %+v, want %+v", i, s.Usage(of), model[of])
			}
		}
		if s.Unproven() != unproven || s.Len() != len(model) {
			t.Fatalf("%d unproven of %d sources, want %d of %d", s.Unproven(), s.Len(), unproven, len(model))
		}
	}
	for range 10000 {
		c := &conns[rng.IntN(len(conns))]
		to := Share(rng.IntN(3))
		s.Move(c.of, c.share, to)
		c.share = to
		check()
	}
	for i := range conns {
		s.Move(conns[i].of, conns[i].share, ShareNone)
		conns[i].share = ShareNone
	}
	check()
}

func TestUsageIsFull(t *testing.T) {
	for _, test := range []struct {
		usage         Usage
		full, crowded bool
	}{
		{Usage{}, false, false},
		{Usage{HalfOpen: MaxSourceHalfOpen - 1, Established: MaxSourceConns - 1}, false, false},
		{Usage{HalfOpen: MaxSourceHalfOpen}, false, true},
		{Usage{Established: MaxSourceConns}, true, false},
	} {
		if full, crowded := test.usage.Full(), test.usage.Crowded(); full != test.full || crowded != test.crowded {
			t.Errorf("%+v: full %v, crowded %v", test.usage, full, crowded)
		}
	}
}

// Each limit alone makes an unknown host need a cookie.
func TestNeedsCookie(t *testing.T) {
	for _, test := range []struct {
		name            string
		usage           Usage
		backed, backlog int
		halfOpen        int // of all sources
		want, wantTLS   bool
	}{
		{"nothing", Usage{}, 0, 1, 0, false, false},
		{"half a backlog", Usage{}, 4, 8, 0, false, false},
		{"more than half", Usage{}, 5, 8, 0, true, true},
		{"few handshakes in all", Usage{}, 0, 8, UnprovenShakes - 1, false, false},
		{"many handshakes in all", Usage{}, 0, 8, UnprovenShakes, false, true},
		{"few in all", Usage{}, 0, 8, Unproven - 1, false, true},
		{"many in all", Usage{}, 0, 8, Unproven, true, true},
		{"few handshakes of the source", Usage{HalfOpen: SourceUnprovenShakes - 1}, 0, 8, 0, false, false},
		{"many handshakes of the source", Usage{HalfOpen: SourceUnprovenShakes}, 0, 8, 0, false, true},
		{"few of the source", Usage{HalfOpen: SourceUnproven - 1}, 0, 8, 0, false, true},
		{"many of the source", Usage{HalfOpen: SourceUnproven}, 0, 8, 0, true, true},
		{"a full source", Usage{Established: MaxSourceConns}, 0, 8, 0, true, true},
	} {
		g := New(rand.New(rand.NewPCG(1, 1)))
		for i := range test.halfOpen {
			g.Sources.Move(sourceNumber(i/SourceUnproven), ShareNone, ShareHalfOpen)
		}
		for tls, want := range map[bool]bool{false: test.want, true: test.wantTLS} {
			if got := g.Challenge(test.usage, test.backed, test.backlog, tls); got != want {
				t.Errorf("%s, TLS %v: %v", test.name, tls, got)
			}
		}
	}
}

// sourceNumber returns source i of many, each an IPv4 address.
func sourceNumber(i int) Source {
	return SourceOf([16]byte{10: 0xff, 11: 0xff, 14: byte(i >> 8), 15: byte(i)})
}

// One source may use up its share of answers of one kind. Other sources keep their shares.
func TestSourceLeavesOthersTheirs(t *testing.T) {
	for name, may := range map[string]func(g *Guard, from Source) bool{
		"RETRY": func(g *Guard, from Source) bool { return g.TakeRetry(from, start) },
		"REJ":   func(g *Guard, from Source) bool { return g.TakeReject(from, start) },
		"RST":   func(g *Guard, from Source) bool { return g.TakeReset(from, start) },
		"ACK":   func(g *Guard, from Source) bool { return g.TakeRepeat(from, start) },
	} {
		g := New(rand.New(rand.NewPCG(1, 1)))
		for range 2 * MaxCookies {
			may(&g, sourceNumber(0))
		}
		if may(&g, sourceNumber(0)) {
			t.Errorf("%s: no bound for one source", name)
		}
		for i := range 4 { // other sources, whose bucket differs under this key
			if !may(&g, sourceNumber(1+i)) {
				t.Errorf("%s: nothing is left for source %d", name, 1+i)
			}
		}
	}
}

// Answers of one kind do not use up the limit of another kind, and one source does not use up the limits of others.
func TestAnswersAreBounded(t *testing.T) {
	g := New(rand.New(rand.NewPCG(1, 1)))
	sent := func(may func() bool) (n int) {
		for range 2 * MaxCookies {
			if may() {
				n++
			}
		}
		return n
	}
	for name, test := range map[string]struct {
		may  func() bool
		want int
	}{
		"RETRY": {func() bool { return g.TakeRetry(Source{1}, start) }, MaxSourceCookies},
		"REJ":   {func() bool { return g.TakeReject(Source{1}, start) }, MaxSourceRejects},
		"RST":   {func() bool { return g.TakeReset(Source{1}, start) }, MaxSourceResets},
	} {
		if got := sent(test.may); got != test.want {
			t.Errorf("%s: %d to one source in no time, want %d", name, got, test.want)
		}
	}
	for name, test := range map[string]struct {
		may  func(Source) bool
		want int
	}{
		"RETRY": {func(s Source) bool { return g.TakeRetry(s, start.Add(time.Hour)) }, MaxCookies},
		"REJ":   {func(s Source) bool { return g.TakeReject(s, start.Add(time.Hour)) }, MaxRejects},
		"RST":   {func(s Source) bool { return g.TakeReset(s, start.Add(time.Hour)) }, MaxResets},
	} {
		i := 0
		if n := sent(func() bool {
			i++
			return test.may(SourceOf([16]byte{10: 0xff, 11: 0xff, 14: byte(i >> 8), 15: byte(i)}))
		}); n != test.want {
			t.Errorf("%s to many sources: %d, want %d", name, n, test.want)
		}
	}
}

// The oldest element comes first, also after growth and wrap-around.
func TestEndedAgainstModel(t *testing.T) {
	var e Ended
	var model []uint64
	rng := rand.New(rand.NewPCG(3, 3))
	for id := range uint64(10000) {
		if len(model) > 0 && rng.IntN(9) < 4 {
			if e.Oldest() != model[0] || e.Pop() != model[0] {
				t.Fatalf("another than %d is the oldest", model[0])
			}
			model = model[1:]
		} else {
			e.Push(id)
			model = append(model, id)
		}
		if e.Len() != len(model) {
			t.Fatalf("%d ids, want %d", e.Len(), len(model))
		}
	}
	if e.Cap() < e.Len() || e.Cap() > 4*len(model) {
		t.Errorf("memory for %d where at most some %d were there", e.Cap(), len(model))
	}
}

// hello returns the body of a REQ with these items, and another one behind them.
func hello(items ...string) []byte {
	b := make([]byte, wire.HelloLen)
	for i := range b {
		b[i] = byte(i)
	}
	for _, it := range append(items, "\x12\x34\x00\x04abcd") {
		b = append(b, it...)
	}
	return b
}

// Items that a cookie does not cover: the cookie itself, and parts of a ClientHello.
const (
	cookieItem   = "\x00\x01\x00\x10sixteen bytes..."
	fragmentItem = "\x00\x04\x00\x05\x00\x00\x00\x09C\x00\x00\x00"
	restItem     = "\x00\x04\x00\x0c\x00\x01\x00\x09lientHel"
)

// A cookie is valid only for its own REQ from its own address, in its period and the next one.
func TestCookies(t *testing.T) {
	m := &Mint{rng: rand.New(rand.NewPCG(4, 4))}
	from, to := wire.Endpoint{IP: [16]byte{15: 1}, Port: 50000}, wire.Endpoint{IP: [16]byte{15: 2}, Port: 14791}
	first := clock.Time(100 * CookiePeriod)
	cookie := *m.Make(&from, &to, hello(), first)
	for _, other := range [][]byte{hello(cookieItem), hello(fragmentItem), hello(restItem), hello(cookieItem, restItem)} {
		if *m.Make(&from, &to, other, first) != cookie {
			t.Errorf("%q has another cookie", other)
		}
	}

	body := hello(cookieItem)
	for _, test := range []struct {
		name  string
		at    clock.Time
		spoil func(from, to *wire.Endpoint, body, cookie []byte)
		want  bool
	}{
		{"at once", first, nil, true},
		{"with another receive limit", first, func(_, _ *wire.Endpoint, b, _ []byte) { b[limitAt] ^= 1; b[limitEnd-1] ^= 1 }, true},
		{"from another address", first, func(f, _ *wire.Endpoint, _, _ []byte) { f.IP[15]++ }, false},
		{"from another port", first, func(f, _ *wire.Endpoint, _, _ []byte) { f.Port++ }, false},
		{"to another address", first, func(_, to *wire.Endpoint, _, _ []byte) { to.IP[15]++ }, false},
		{"of another connection", first, func(_, _ *wire.Endpoint, b, _ []byte) { b[0] ^= 1 }, false},
		{"with other private data", first, func(_, _ *wire.Endpoint, b, _ []byte) { b[len(b)-1] ^= 1 }, false},
		{"with another bit", first, func(_, _ *wire.Endpoint, _, c []byte) { c[3] ^= 1 }, false},
		{"in the next period", first.Add(CookiePeriod), nil, true},
		{"two periods later", first.Add(2 * CookiePeriod), nil, false},
		{"much later", first.Add(1000 * CookiePeriod), nil, false},
	} {
		f, d, b, c := from, to, bytes.Clone(body), bytes.Clone(cookie[:])
		if test.spoil != nil {
			test.spoil(&f, &d, b, c)
		}
		if got := m.Proves(&f, &d, b, c, test.at); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// A flood of demands for cookies costs no memory.
func TestCookiesAllocateNothing(t *testing.T) {
	m := &Mint{rng: rand.New(rand.NewPCG(4, 4))}
	var from, to wire.Endpoint
	body := hello(cookieItem, fragmentItem)
	var sum byte
	if n := testing.AllocsPerRun(100, func() {
		sum += m.Make(&from, &to, body, start)[0]
		if m.Proves(&from, &to, body, body[wire.HelloLen+4:][:wire.CookieLen], start) {
			t.Error("made-up bytes are a cookie")
		}
	}); n != 0 {
		t.Errorf("%v allocations, %d", n, sum)
	}
}
