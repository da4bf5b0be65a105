package conformance

import "math"

// RemoteAddress is what a Read or Write may name as the peer's memory.
type RemoteAddress struct {
	Name    string
	At      func(base uint64) uint64 // the address; base is that of the peer's region
	Length  int                      // bytes
	Granted bool
}

// RemoteAddresses are addresses at the edges of a region of size bytes, for n bytes: the sum of address and length exceeds the
// region by a byte, or 32 or 64 bits.
func RemoteAddresses(size uint64, n int) []RemoteAddress {
	l := uint64(n)
	return []RemoteAddress{
		{"first byte", func(b uint64) uint64 { return b }, n, true},
		{"last bytes", func(b uint64) uint64 { return b + size - l }, n, true},
		{"one beyond", func(b uint64) uint64 { return b + size - l + 1 }, n, false},
		{"one before", func(b uint64) uint64 { return b - 1 }, n, false},
		{"behind the end", func(b uint64) uint64 { return b + size }, n, false},
		{"2^32 further", func(b uint64) uint64 { return b + 1<<32 }, n, false},
		{"2^32 less a byte further", func(b uint64) uint64 { return b + 1<<32 - 1 }, n, false},
		{"zero", func(uint64) uint64 { return 0 }, n, false},
		{"the last address", func(uint64) uint64 { return math.MaxUint64 }, n, false},
		{"wraps to zero", func(uint64) uint64 { return math.MaxUint64 - l + 1 }, n, false},
		{"wraps into the region", func(b uint64) uint64 { return b - 1<<63 }, n, false},
		{"nothing, at the end of all addresses", func(uint64) uint64 { return math.MaxUint64 }, 0, true},
	}
}

// Entry is what a scatter/gather entry may have as its bytes.
type Entry struct {
	Name    string
	Bytes   []byte
	Granted bool
}

// Entries are nil, empty, or lie at the edges of a region that is the second half of memory, which has an even length.
func Entries(memory []byte) []Entry {
	half, size := len(memory)/2, len(memory)
	return []Entry{
		{"nil", nil, true},
		{"empty, inside", memory[half:half], true},
		{"last byte", memory[size-1:], true},
		{"one byte before", memory[half-1 : half+1], false},
		{"all before", memory[:half], false},
		{"more than the region", memory, false},
		{"other memory", make([]byte, 8), false},
	}
}
