package guard

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Answers to strangers per second (PROTOCOL §7.4, §7.5). RETRY costs 2 us, mostly the MAC, and must keep up with connections
// that are opened at 10,000 a second.
const (
	MaxResets        = 100 // RST
	MaxSourceResets  = 5   // RST to one source
	MaxRejects       = 1000
	MaxSourceRejects = MaxRejects / 4 // REJ to one source
	MaxCookies       = 32768
	MaxSourceCookies = MaxCookies / 2 // RETRY to one source
)

// Limits for unknown peers (PROTOCOL §7.5).
const (
	MaxBacklog        = 4096                // requests of one listener
	MaxUnproven       = 256                 // REQs a second that are taken without a cookie
	MaxSourceUnproven = 3 * MaxUnproven / 4 // the same of one source
	CookiePeriod      = 10 * time.Second    // a cookie is good for its period and the next one
	MaxSourceHalfOpen = MaxBacklog / 2      // half-open connections of any source: it cannot fill the largest backlog alone
	MaxSourceConns    = 32768               // established connections of any source: twice the ephemeral ports of an address
	MaxEnded          = 16384               // connections that are over and still answer
	trustedHalfOpen   = 256                 // half-open connections of a source that is not asked for a cookie
)

// Guard is what the leading engine of an adapter knows of strangers.
type Guard struct {
	Cookies Mint
	Sources Sources

	unproven answers // REQs without a cookie
	retries  answers // by kind
	rejects  answers
	resets   answers
}

// answers bounds the answers of one kind, or the REQs that are taken without a cookie: for each source, and for all together. No source can
// use up the total alone.
type answers struct {
	all     Bucket
	sources sourceBuckets
}

func (a *answers) allow(to Source, now clock.Time, perSource, all int) bool {
	return a.sources.Allow(to, now, perSource) && a.all.Allow(now, all)
}

// New makes a Guard with secrets from rng, which it keeps for the secrets of cookies.
func New(rng *rand.Rand) Guard {
	g := Guard{Cookies: Mint{rng: rng}, Sources: Sources{table: map[Source]Usage{}}}
	key := rng.Uint64()
	for _, a := range [...]*answers{&g.unproven, &g.retries, &g.rejects, &g.resets} {
		a.sources.key = key
	}
	return g
}

// Challenge decides whether a REQ without a valid cookie, from a source with usage u, must get a cookie first. It must if the
// listener, which has backed requests of at most backlog, is half full, if all listeners together or the source are half full, or
// if too many such REQs arrived within a second, from the source or from all. It counts the REQ unless one of the other conditions holds.
func (g *Guard) Challenge(from Source, u Usage, backed, backlog int, now clock.Time) bool {
	return 2*backed > backlog || 2*g.Sources.HalfOpen() > MaxBacklog || u.HalfOpen >= trustedHalfOpen ||
		u.Established >= MaxSourceConns || !g.unproven.allow(from, now, MaxSourceUnproven, MaxUnproven)
}

// TakeRetry takes a RETRY from what may be sent to a source, and to all, in this second. It reports false when nothing is left.
func (g *Guard) TakeRetry(to Source, now clock.Time) bool {
	return g.retries.allow(to, now, MaxSourceCookies, MaxCookies)
}

// TakeReject does it with a REJ.
func (g *Guard) TakeReject(to Source, now clock.Time) bool {
	return g.rejects.allow(to, now, MaxSourceRejects, MaxRejects)
}

// TakeReset does it with an RST.
func (g *Guard) TakeReset(to Source, now clock.Time) bool {
	return g.resets.allow(to, now, MaxSourceResets, MaxResets)
}
