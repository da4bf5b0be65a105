package link

// Limited is a Link that knows the MTU of the kernel's route for a path.
type Limited interface {
	// Limit returns the size of the largest ND packet that the route of a path allows, in bytes; 0 if the route sets no MTU. While the
	// link has not read the route, it returns false and begins to read the route. The caller asks again.
	Limit(p Path) (size int, known bool)
}

// Largest returns the size of the largest ND packet that a link sends on a path, and whether the link has read the MTU of the path's route.
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
