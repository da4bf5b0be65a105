package guard

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Answers per second to peers without a connection (PROTOCOL §7.4, §7.5). A RETRY costs 2 us, mostly for the MAC, and must keep up
// with 10,000 new connections a second.
const (
	MaxResets        = 100 // RST
	MaxSourceResets  = 5   // RST to one source
	MaxRejects       = 1000
	MaxSourceRejects = MaxRejects / 4 // REJ to one source
	MaxCookies       = 32768
	MaxSourceCookies = MaxCookies / 2 // RETRY to one source
)

// Reports that are repeated per second, because the peers of connections wait for receives and may not have heard of them (PROTOCOL §9.4).
const (
	MaxRepeats       = 32768
	MaxSourceRepeats = MaxRepeats / 2 // to one source
)

// MaxSourceShakes is how many TLS handshakes of a source begin in a second (PROTOCOL §10.2). A server's processor computes about 1400, the
// ClientHello alone takes 0.3 ms of it: one source fills three processors at most.
const MaxSourceShakes = 4096

// Numbers of half-open connections from which a REQ needs a cookie (PROTOCOL §7.5). A REQ with a forged source counts for at least 5 s, also if
// it is refused at once, and an honest one for about a round trip. So a flood of forged REQs makes 200 connections a second at most, or 50 TLS handshakes,
// and honest peers that come and go quickly need no cookie.
const (
	Unproven             = 1024                   // of all sources, at most SourceUnproven of each
	SourceUnproven       = Unproven / 4           // of the source
	UnprovenShakes       = 256                    // of all sources, if the REQ begins a TLS handshake
	SourceUnprovenShakes = 3 * UnprovenShakes / 4 // of the source, if it does
)

// Limits for unknown peers (PROTOCOL §7.5).
const (
	MaxBacklog        = 4096             // pending requests of one listener
	CookiePeriod      = 10 * time.Second // a cookie is valid in its period and the next one
	MaxSourceHalfOpen = MaxBacklog / 2   // half-open connections of one source, which so cannot fill the largest backlog alone
	MaxSourceConns    = 32768            // established connections of one source: twice the ephemeral ports of an address
	MaxEnded          = 16384            // ended connections that still answer
)

// Guard is the state of an adapter's leading engine about peers without a connection.
type Guard struct {
	Cookies Mint
	Sources Sources

	shakes  sourceBuckets // TLS handshakes
	retries answers       // answers of each kind
	rejects answers
	resets  answers
	repeats answers // of this engine's connections
}

// answers bounds the answers of one kind, for each source and in total. No source can use up the total alone.
type answers struct {
	all     Bucket
	sources sourceBuckets
}

func (a *answers) allow(to Source, now clock.Time, perSource, all int) bool {
	return a.sources.Allow(to, now, perSource) && a.all.Allow(now, all)
}

// New returns a Guard that draws its secrets from rng, also later ones.
func New(rng *rand.Rand) Guard {
	g := Guard{Cookies: Mint{rng: rng}, Sources: Sources{table: map[Source]Usage{}}}
	key := rng.Uint64()
	for _, a := range [...]*answers{&g.retries, &g.rejects, &g.resets, &g.repeats} {
		a.sources.key = key
	}
	g.shakes.key = key
	return g
}

// Challenge reports whether a REQ without a valid cookie, from a source with usage u, must get a cookie first. It must if the
// listener, which has backed of at most backlog requests, is half full. It must also if the host or the source has too many half-open
// connections, or the source too many established ones. Fewer half-open ones are too many if a TLS handshake would begin.
func (g *Guard) Challenge(u Usage, backed, backlog int, tls bool) bool {
	all, ofSource := Unproven, SourceUnproven
	if tls {
		all, ofSource = UnprovenShakes, SourceUnprovenShakes
	}
	return 2*backed > backlog || g.Sources.Unproven() >= all || int(u.HalfOpen) >= ofSource || u.Established >= MaxSourceConns
}

// TakeShake counts a TLS handshake of a source. It returns false if the limit of this second is reached.
func (g *Guard) TakeShake(from Source, now clock.Time) bool {
	return g.shakes.Allow(from, now, MaxSourceShakes)
}

// TakeRetry counts a RETRY to a source. It returns false if the limit of this second is reached.
func (g *Guard) TakeRetry(to Source, now clock.Time) bool {
	return g.retries.allow(to, now, MaxSourceCookies, MaxCookies)
}

// TakeReject does the same for a REJ.
func (g *Guard) TakeReject(to Source, now clock.Time) bool {
	return g.rejects.allow(to, now, MaxSourceRejects, MaxRejects)
}

// TakeReset does the same for an RST.
func (g *Guard) TakeReset(to Source, now clock.Time) bool {
	return g.resets.allow(to, now, MaxSourceResets, MaxResets)
}

// TakeRepeat does it with a report that is repeated to a connection's peer. Each engine counts its own.
func (g *Guard) TakeRepeat(to Source, now clock.Time) bool {
	return g.repeats.allow(to, now, MaxSourceRepeats, MaxRepeats)
}
