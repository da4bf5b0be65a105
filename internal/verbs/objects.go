package verbs

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider"
)

// ObjectKind is a kind of object of which an adapter has a limited number.
type ObjectKind uint8

// The kinds.
const (
	ObjectCQ ObjectKind = iota
	ObjectQP
	ObjectSRQ
	ObjectConnector
	ObjectListener
	ObjectSharedEndpoint
	ObjectPD
	ObjectMR
	ObjectMW
	NumObjectKinds
)

var kindNames = [NumObjectKinds]string{
	ObjectCQ: "completion queue", ObjectQP: "queue pair", ObjectSRQ: "shared receive queue", ObjectConnector: "connector",
	ObjectListener: "listener", ObjectSharedEndpoint: "shared endpoint", ObjectPD: "protection domain", ObjectMR: "memory region",
	ObjectMW: "memory window",
}

// String names the kind, in the singular.
func (k ObjectKind) String() string { return kindNames[k] }

// limits is how many objects of a kind an adapter has at once. A queue pair is worth having only with a connection, and a token
// names one of 2^16 regions (the table of regions keeps its own count).
var limits = [NumObjectKinds]int32{
	ObjectCQ:             1 << 16,
	ObjectQP:             1 << 17,
	ObjectSRQ:            1 << 16,
	ObjectConnector:      1 << 17,
	ObjectListener:       1 << 16,
	ObjectSharedEndpoint: 1 << 16,
	ObjectPD:             1 << 16,
	ObjectMR:             1 << 16,
	ObjectMW:             1 << 16,
}

// Objects counts the objects of an adapter that are not closed.
type Objects struct{ used [NumObjectKinds]atomic.Int32 }

// Take counts one more, unless there are as many as may be.
func (o *Objects) Take(k ObjectKind) bool {
	if o.used[k].Add(1) > limits[k] {
		o.used[k].Add(-1)
		return false
	}
	return true
}

// Give counts one less. Each object gives once, when it is closed first.
func (o *Objects) Give(k ObjectKind) { o.used[k].Add(-1) }

// Used is how many are not closed.
func (o *Objects) Used(k ObjectKind) int { return int(o.used[k].Load()) }

// Create checks what every call that makes an object checks: that the adapter is there, and that it has one of the kind left, which is
// taken then.
func (a *Adapter) Create(k ObjectKind) provider.Outcome {
	switch {
	case a.Closed():
		return provider.OutcomeDeviceRemoved
	case !a.Objects.Take(k):
		return provider.OutcomeInsufficientResources
	}
	return provider.OutcomeSuccess
}
