package credit

// Farthest is the largest distance between the next SEND and a valid limit. Every receive queue is shorter. With a larger distance,
// 32 bits would not tell which number comes first.
const Farthest = 1 << 30

// Raise returns the sender's new limit after the peer reported told. It is the higher of limit and told if told is valid. next is
// the number of the next SEND.
func Raise(limit, next, told uint32) uint32 {
	if further := int32(told - limit); further > 0 && reach(limit, next, further) <= Farthest {
		return told
	}
	return limit
}

// Lower returns the sender's new limit after the peer took receives back and reported told. It is the lower of limit and told if
// told is valid.
func Lower(limit, next, told uint32) uint32 {
	if further := int32(told - limit); further < 0 && reach(limit, next, further) >= -Farthest {
		return told
	}
	return limit
}

// reach returns the distance from the next SEND to a limit that is further above the present limit.
func reach(limit, next uint32, further int32) int64 { return int64(int32(limit-next)) + int64(further) }
