package verbs

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/provider"
)

// ObjectKind is a kind of object. An adapter has a limited number of each kind.
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

// limits is how many objects of each kind an adapter can have. A queue pair is useful only with a connection, and a token names one of
// 2^16 regions (the table of regions keeps its own count).
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

// Objects counts the open objects of an adapter.
type Objects struct{ used [NumObjectKinds]atomic.Int32 }

// Take counts one more object, unless the limit is reached.
func (o *Objects) Take(k ObjectKind) bool {
	if o.used[k].Add(1) > limits[k] {
		o.used[k].Add(-1)
		return false
	}
	return true
}

// Give counts one object less. Each object calls it once, at its first Close.
func (o *Objects) Give(k ObjectKind) { o.used[k].Add(-1) }

// Used returns the number of open objects.
func (o *Objects) Used(k ObjectKind) int { return int(o.used[k].Load()) }

// Create checks, for every call that makes an object, that the adapter works and that the limit of the kind is not reached. It then
// counts the object.
func (a *Adapter) Create(k ObjectKind) provider.Outcome {
	switch {
	case a.Closed():
		return provider.OutcomeDeviceRemoved
	case !a.Objects.Take(k):
		return provider.OutcomeInsufficientResources
	}
	return provider.OutcomeSuccess
}
