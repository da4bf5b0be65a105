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

// TLS handshakes begun per second (PROTOCOL §10.2). A handshake costs a server 0.3 ms of processor time for the ClientHello alone, so
// that proven sources keep a third of a processor busy at most, each.
const (
	MaxUnprovenShakes       = 64                        // without a cookie
	MaxSourceUnprovenShakes = 3 * MaxUnprovenShakes / 4 // of one source without a cookie
	MaxSourceShakes         = 1024                      // of one source
)

// Limits for unknown peers (PROTOCOL §7.5).
const (
	MaxBacklog        = 4096                // pending requests of one listener
	MaxUnproven       = 256                 // REQs accepted without a cookie per second
	MaxSourceUnproven = 3 * MaxUnproven / 4 // REQs of one source accepted without a cookie per second
	CookiePeriod      = 10 * time.Second    // a cookie is valid in its period and the next one
	MaxSourceHalfOpen = MaxBacklog / 2      // half-open connections of one source, which so cannot fill the largest backlog alone
	MaxSourceConns    = 32768               // established connections of one source: twice the ephemeral ports of an address
	MaxEnded          = 16384               // ended connections that still answer
	trustedHalfOpen   = 256                 // half-open connections up to which a source is not asked for a cookie
)

// Guard is the state of an adapter's leading engine about peers without a connection.
type Guard struct {
	Cookies Mint
	Sources Sources

	unproven answers       // REQs without a cookie
	shakes   answers       // the same of TLS handshakes
	proven   sourceBuckets // all TLS handshakes
	retries  answers       // answers of each kind
	rejects  answers
	resets   answers
	repeats  answers // of this engine's connections
}

// answers bounds the answers of one kind, or the REQs accepted without a cookie, both for each source and in total. No source can
// use up the total alone.
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
	for _, a := range [...]*answers{&g.unproven, &g.shakes, &g.retries, &g.rejects, &g.resets, &g.repeats} {
		a.sources.key = key
	}
	g.proven.key = key
	return g
}

// Challenge reports whether a REQ without a valid cookie, from a source with usage u, must get a cookie first. It must if the
// listener, which has backed of at most backlog requests, is half full. It must also if all listeners together or the source are
// half full, or if too many such REQs arrived within a second, from the source or in total. Fewer are too many if a TLS handshake would
// begin. Challenge counts the REQ unless an earlier condition holds.
func (g *Guard) Challenge(from Source, u Usage, backed, backlog int, tls bool, now clock.Time) bool {
	if 2*backed > backlog || 2*g.Sources.HalfOpen() > MaxBacklog || u.HalfOpen >= trustedHalfOpen || u.Established >= MaxSourceConns {
		return true
	}
	if tls {
		return !g.shakes.allow(from, now, MaxSourceUnprovenShakes, MaxUnprovenShakes)
	}
	return !g.unproven.allow(from, now, MaxSourceUnproven, MaxUnproven)
}

// TakeShake counts a TLS handshake of a source. It returns false if the limit of this second is reached.
func (g *Guard) TakeShake(from Source, now clock.Time) bool {
	return g.proven.Allow(from, now, MaxSourceShakes)
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
