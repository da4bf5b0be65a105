package crc32c

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli selects the SSE4.2 or ARMv8 instruction in the standard library.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Update adds p to the checksum crc and returns the new one, as crc32.Update does with the Castagnoli table. It does not retain p. p does
// not escape where the message is folded.
func Update(crc uint32, p []byte) uint32 {
	if folds {
		return ^update(^crc, p)
	}
	return crc32.Update(crc, castagnoli, p)
}

// UpdateWords adds four words, each with its most significant byte first, to a checksum. The words need no memory of the caller. A slice
// that is passed to hash/crc32 would be allocated.
func UpdateWords(crc uint32, words *[4]uint64) uint32 {
	var p [32]byte
	for i, w := range words {
		binary.BigEndian.PutUint64(p[8*i:], w)
	}
	if folds {
		return ^update(^crc, p[:])
	}
	crc = ^crc
	for _, b := range p {
		crc = castagnoli[byte(crc)^b] ^ crc>>8
	}
	return ^crc
}
