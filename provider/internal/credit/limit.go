package credit

// Farthest is how far from the next SEND a limit may be: no receive queue is as long, and 32 bits say which number comes first.
const Farthest = 1 << 30

// Raise returns the new limit of a sender that had the given limit, whose next SEND is next, and whose peer now reports told: the higher of
// the two limits if told is valid.
func Raise(limit, next, told uint32) uint32 {
	if further := int32(told - limit); further > 0 && reach(limit, next, further) <= Farthest {
		return told
	}
	return limit
}

// Lower returns the same when the peer takes back what it said before: the nearer one.
func Lower(limit, next, told uint32) uint32 {
	if further := int32(told - limit); further < 0 && reach(limit, next, further) >= -Farthest {
		return told
	}
	return limit
}

// reach is how far beyond the next SEND a limit is that is so much farther than the present one.
func reach(limit, next uint32, further int32) int64 { return int64(int32(limit-next)) + int64(further) }
