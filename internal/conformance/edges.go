package conformance

import "math"

// RemoteAddress is a remote range for a Read or Write.
type RemoteAddress struct {
	Name    string
	At      func(base uint64) uint64 // the address; base is the address of the peer's region
	Length  int                      // bytes
	Granted bool
}

// RemoteAddresses returns ranges of n bytes at the edges of a region of size bytes: the sum of address and length exceeds the
// region by one byte, or overflows 32 or 64 bits.
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

// Entry is the memory of a scatter/gather entry.
type Entry struct {
	Name    string
	Bytes   []byte
	Granted bool
}

// Entries returns slices that are nil, empty, or at the edges of a region, which is the second half of memory. memory has an even
// length.
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
