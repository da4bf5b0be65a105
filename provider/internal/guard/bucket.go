package guard

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Bucket is a token bucket that holds one second's worth.
type Bucket struct {
	used int // tokens taken and not yet given back
	at   clock.Time
}

// Allow takes a token if there is one, at perSecond of them a second.
func (b *Bucket) Allow(now clock.Time, perSecond int) bool {
	if b.used == 0 {
		b.at = now
	} else if back := int(min(now.Sub(b.at), time.Second) * time.Duration(perSecond) / time.Second); back > 0 {
		b.used -= min(back, b.used)
		b.at = now
	}
	if b.used == perSecond {
		return false
	}
	b.used++
	return true
}

// sourceBuckets limit answers per source in fixed memory. Sources that share a bucket share what it gives; which ones do
// is a secret.
type sourceBuckets struct {
	key     uint64
	buckets [sourceSlots]Bucket
}

const sourceSlots = 256

func (s *sourceBuckets) Allow(from Source, now clock.Time, perSecond int) bool {
	h := s.key
	for i := 0; i < len(from); i += 4 {
		h ^= uint64(from[i]) | uint64(from[i+1])<<8 | uint64(from[i+2])<<16 | uint64(from[i+3])<<24
		h *= 0xff51afd7ed558ccd // MurmurHash3
		h ^= h >> 32
	}
	return s.buckets[h%sourceSlots].Allow(now, perSecond)
}
