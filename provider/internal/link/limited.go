package link

// Limited is a Link that knows the MTU which the kernel's route of a path sets.
type Limited interface {
	// Limit is the largest ND packet of the route, in bytes, and 0 when the route sets none. It reports false while nobody has looked at the route. The
	// link looks then, and the caller asks again.
	Limit(p Path) (size int, known bool)
}

// Largest is the largest ND packet that a link sends on a path, as far as that is known.
func Largest(l Link, p Path) (size int, known bool) {
	size = l.MaxPacket()
	limited, ok := l.(Limited)
	if !ok || p == 0 {
		return size, true
	}
	limit, known := limited.Limit(p)
	if limit > 0 {
		size = min(size, limit)
	}
	return size, known
}
