package nd

import "github.com/ndxdp/ndxdp/internal/host"

// create checks what every Create method checks first: that the adapter is there, and that it has an object left.
func (a *Adapter) create(op string, k host.ObjectKind) error {
	switch {
	case a.closed():
		return a.removed(op)
	case !a.host.Objects.Take(k):
		return &Error{Op: op, Status: ErrInsufficientResources}
	}
	return nil
}
