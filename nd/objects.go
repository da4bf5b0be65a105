package nd

import "github.com/ndxdp/ndxdp/internal/verbs"

// create checks what every Create method checks first: that the adapter is there, and that it has an object left.
func (a *Adapter) create(op string, k verbs.ObjectKind) error {
	switch {
	case a.closed():
		return a.removed(op)
	case !a.verbs.Objects.Take(k):
		return &Error{Op: op, Status: ErrInsufficientResources}
	}
	return nil
}
