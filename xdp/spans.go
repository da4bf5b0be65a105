package xdp

import "slices"

// span is a range of count frames, beginning with frame start.
type span struct{ start, count uint32 }

// spans allocates disjoint ranges of frames, first fit. free is sorted by start, and its ranges do not touch.
type spans struct{ free []span }

func newSpans(start, count uint32) spans {
	if count == 0 {
		return spans{}
	}
	return spans{free: []span{{start, count}}}
}

// take allocates a range of count frames. A range of zero frames always exists.
func (s *spans) take(count uint32) (span, bool) {
	if count == 0 {
		return span{}, true
	}
	for i := range s.free {
		f := &s.free[i]
		if f.count < count {
			continue
		}
		taken := span{f.start, count}
		f.start += count
		f.count -= count
		if f.count == 0 {
			s.free = slices.Delete(s.free, i, i+1)
		}
		return taken, true
	}
	return span{}, false
}

// give frees a range and joins it with its neighbours.
func (s *spans) give(r span) {
	if r.count == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(s.free, r, func(a, b span) int { return int(int64(a.start) - int64(b.start)) })
	s.free = slices.Insert(s.free, i, r)
	if i+1 < len(s.free) && s.free[i].start+s.free[i].count == s.free[i+1].start {
		s.free[i].count += s.free[i+1].count
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].start+s.free[i-1].count == s.free[i].start {
		s.free[i-1].count += s.free[i].count
		s.free = slices.Delete(s.free, i, i+1)
	}
}

// largest returns the size of the longest free range.
func (s *spans) largest() uint32 {
	var most uint32
	for _, f := range s.free {
		most = max(most, f.count)
	}
	return most
}
