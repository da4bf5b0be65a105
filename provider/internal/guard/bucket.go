package guard

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Bucket is a token bucket that holds one second's worth.
type Bucket struct {
	used int        // tokens taken and not yet given back
	at   clock.Time // when one was given back last
}

// Allow takes a token if there is one, at perSecond of them a second.
func (b *Bucket) Allow(now clock.Time, perSecond int) bool {
	if b.used == 0 {
		b.at = now
	} else if earned := min(now.Sub(b.at), time.Second) * time.Duration(perSecond); earned >= time.Second {
		b.used -= min(int(earned/time.Second), b.used)
		b.at = now.Add(-(earned % time.Second / time.Duration(perSecond))) // what has passed of the next token counts for it
	}
	if b.used == perSecond {
		return false
	}
	b.used++
	return true
}

// sourceBuckets limits answers per source in fixed memory. Sources that share a bucket share its answers. A secret
// decides which sources share a bucket.
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
