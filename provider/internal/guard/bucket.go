package guard

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// Bucket is a token bucket with a capacity of one second's tokens.
type Bucket struct {
	used int        // tokens taken and not refilled yet
	at   clock.Time // time of the last refill
}

// Allow takes a token, if there is one. The bucket refills perSecond tokens a second.
func (b *Bucket) Allow(now clock.Time, perSecond int) bool {
	if b.used == 0 {
		b.at = now
	} else if earned := min(now.Sub(b.at), time.Second) * time.Duration(perSecond); earned >= time.Second {
		b.used -= min(int(earned/time.Second), b.used)
		b.at = now.Add(-(earned % time.Second / time.Duration(perSecond))) // the rest counts for the next token
	}
	if b.used == perSecond {
		return false
	}
	b.used++
	return true
}

// sourceBuckets limits answers per source in fixed memory. Several sources share a bucket; a secret decides which.
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
