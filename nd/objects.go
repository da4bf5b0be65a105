package nd

import "github.com/ndxdp/ndxdp/internal/verbs"

// create checks what every Create method checks: that the adapter is there, and that it has an object left.
func (a *Adapter) create(op string, k verbs.ObjectKind) error {
	return a.fail(op, noAddr, noAddr, a.verbs.Create(k), nil)
}
