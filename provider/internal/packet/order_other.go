//go:build !amd64

package packet

import "sync/atomic"

// publishOrder is what orderStores needs for its barrier.
var publishOrder atomic.Uint32

// orderStores separates the bytes of a message from its last one, so that whoever polls the last byte sees the others (PROTOCOL §9.1): a full
// barrier.
func orderStores() { publishOrder.Add(1) }
