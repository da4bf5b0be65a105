package wire

import "github.com/ndxdp/ndxdp/internal/crc32c"

// Sum adds b to a checksum (PROTOCOL §3.4).
func Sum(crc uint32, b []byte) uint32 { return crc32c.Update(crc, b) }

// SumFirst is the checksum of the first fragment of a packet, which holds at least the base header: all of it but the CRC itself
// (PROTOCOL §3.4). Further fragments follow with Sum.
func SumFirst(first []byte) uint32 { return Sum(Sum(0, first[:CRCOffset]), first[BaseHeaderLen:]) }
