// Package pool keeps what was given back until it is needed again: a bounded list, of one owner. The garbage collector gets the rest.
package pool

// spare is how many free things a pool keeps beyond as many as are in use.
const spare = 64

// Of is a pool of things of one type. Its zero value is empty.
type Of[T any] struct {
	free []T
	out  int // taken and not given back
}

// Get takes a thing in the state in which it was given back. It reports false when there is none, and the caller makes a new one; that counts as taken, too.
func (p *Of[T]) Get() (x T, ok bool) {
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

// Put takes an object back, perhaps one of another pool. Objects that are unlikely to be needed are left to the garbage collector.
func (p *Of[T]) Put(x T) {
	p.out--
	if keep := max(p.out, 0) + spare; len(p.free) < keep {
		p.free = append(p.free, x)
	} else if len(p.free) > keep {
		clear(p.free[keep:])
		p.free = p.free[:keep]
	}
}

// Out is how many things are taken and not given back. It is negative when more came from other pools than went there.
func (p *Of[T]) Out() int { return p.out }
