package verbs

// The limits of every adapter (ND specification section 4), in addition to the engine's limits. Queue depths are equal
// for both directions because ND programs use one number for both.
const (
	MaxRegistration = 1 << 40
	MaxQueueDepth   = 16384
	MaxSharedDepth  = 1 << 16 // enough for a few receives of each of thousands of queue pairs
	MaxCQDepth      = 1 << 18
	MaxInline       = 256
	MaxReadLimit    = 32
	LargeRequest    = 4096
	MaxFixedWindow  = 1 << 16 // packets
	SGEFloor        = 4       // every queue accepts at least this many entries, even if the program asks for fewer (R-SGE)
)
