package crc32c

import "hash/crc32"

// castagnoli selects the SSE4.2 or ARMv8 instruction in the standard library.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Update adds p to the checksum crc and returns the new one, as crc32.Update does with the Castagnoli table.
// It does not retain p, and p does not escape where it is folded.
func Update(crc uint32, p []byte) uint32 {
	if folds {
		return ^update(^crc, p)
	}
	return crc32.Update(crc, castagnoli, p)
}
