//go:build !amd64

package packet

import "sync/atomic"

// publishOrder is the variable of the barrier in orderStores.
var publishOrder atomic.Uint32

// orderStores makes the last byte of a message visible after all other bytes, for applications that poll the last byte (PROTOCOL
// §9.1). It is a full barrier.
func orderStores() { publishOrder.Add(1) }
