package provider

import (
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/provider/internal/memory"
)

// The names of package memory that upper layers use.
type (
	// Memory is the table of an adapter's regions and windows.
	Memory = memory.Table
	// Region is registered memory.
	Region = memory.Region
	// MemoryWindow grants the peer of one queue pair access to a part of a region, for as long as it is bound.
	MemoryWindow = memory.Window
	// Domain is a protection domain: regions that are of one serve its queue pairs and no others.
	Domain = memory.Domain
	// Token names a region or a window to requests, here and at the peer. Zero is never a token.
	Token = memory.Token
	// Rights say what may be done with a region or a window beyond reading it locally.
	Rights = memory.Rights
)

// The rights of a region. A window has only the remote ones.
const (
	RightLocalWrite  = memory.RightLocalWrite
	RightRemoteRead  = memory.RightRemoteRead
	RightRemoteWrite = memory.RightRemoteWrite
)

// NewMemory makes an empty table. Tokens are drawn from rng, which must be unpredictable outside tests; the table uses it from
// any goroutine, under its lock.
func NewMemory(rng *rand.Rand) *Memory { return memory.NewTable(rng) }
