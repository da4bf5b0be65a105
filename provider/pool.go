package provider

// This file keeps freed objects for reuse, in a bounded list with one owner. The garbage collector takes the rest.

// spare is the number of free objects that a pool keeps beyond the number in use.
const spare = 64

// pool has objects of one type. The zero value is empty.
type pool[T any] struct {
	free []T
	out  int // objects taken and not returned
}

// Get takes an object in the state in which it was returned. If there is none, it returns false, and the caller makes a new object.
// Both count as taken.
func (p *pool[T]) Get() (x T, ok bool) {
	p.out++
	last := len(p.free) - 1
	if last < 0 {
		return x, false
	}
	x = p.free[last]
	clear(p.free[last:])
	p.free = p.free[:last]
	return x, true
}

// Put returns an object, which may be from another pool. Objects that are unlikely to be needed go to the garbage collector.
func (p *pool[T]) Put(x T) {
	p.out--
	if keep := max(p.out, 0) + spare; len(p.free) < keep {
		p.free = append(p.free, x)
	} else if len(p.free) > keep {
		clear(p.free[keep:])
		p.free = p.free[:keep]
	}
}

// Out returns the number of objects taken and not returned. It is negative if objects of other pools were returned here.
func (p *pool[T]) Out() int { return p.out }
