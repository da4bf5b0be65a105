package nd

import "sync/atomic"

// objectKind is a kind of object of which an adapter has a limited number.
type objectKind uint8

const (
	objectCQ objectKind = iota
	objectQP
	objectConnector
	objectListener
	objectSRQ
	numObjectKinds
)

// objectLimits is how many objects of a kind an adapter has at once. A queue pair is worth having only with a connection, and
// a token names one of 2^16 regions (the table of regions keeps its own count).
var objectLimits = [numObjectKinds]int32{
	objectCQ:        1 << 16,
	objectQP:        1 << 17,
	objectConnector: 1 << 17,
	objectListener:  1 << 16,
	objectSRQ:       1 << 16,
}

// objects counts the objects of an adapter that are not closed.
type objects struct{ used [numObjectKinds]atomic.Int32 }

// take counts one more, unless there are as many as may be.
func (o *objects) take(k objectKind) bool {
	if o.used[k].Add(1) > objectLimits[k] {
		o.used[k].Add(-1)
		return false
	}
	return true
}

// give counts one less. Each object gives once, when it is closed first.
func (o *objects) give(k objectKind) { o.used[k].Add(-1) }

// create checks what every Create method checks first: that the adapter is there, and that it has an object left.
func (a *Adapter) create(op string, k objectKind) error {
	switch {
	case a.closed():
		return &Error{Op: op, Status: ErrDeviceRemoved}
	case !a.objects.take(k):
		return &Error{Op: op, Status: ErrInsufficientResources}
	}
	return nil
}
