package nd

import "github.com/ndxdp/ndxdp/internal/verbs"

// create checks for every Create method that the adapter works and has an object left.
func (a *Adapter) create(op string, k verbs.ObjectKind) error {
	return a.fail(op, noAddr, noAddr, a.verbs.Create(k), nil)
}
