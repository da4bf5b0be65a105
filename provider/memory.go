package provider

import (
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/provider/internal/memory"
)

// Names of package memory for upper layers.
type (
	// Memory is the table of an adapter's regions and windows.
	Memory = memory.Table
	// Region is registered memory.
	Region = memory.Region
	// MemoryWindow grants the peer of one queue pair access to part of a region while it is bound.
	MemoryWindow = memory.Window
	// Domain is a protection domain. A region of a domain serves only queue pairs of this domain.
	Domain = memory.Domain
	// Token names a region or a window in requests, on this side and at the peer. Zero is not a token.
	Token = memory.Token
	// Rights are the allowed accesses to a region or window. Local reads need no right.
	Rights = memory.Rights
)

// Rights of a region. A window has only remote rights.
const (
	RightLocalWrite  = memory.RightLocalWrite
	RightRemoteRead  = memory.RightRemoteRead
	RightRemoteWrite = memory.RightRemoteWrite
)

// NewMemory makes an empty table. Tokens are drawn from rng, which must be unpredictable outside tests. The table calls rng under
// its lock, from any goroutine.
func NewMemory(rng *rand.Rand) *Memory { return memory.NewTable(rng) }
