package wire

import (
	"encoding/binary"

	"github.com/ndxdp/ndxdp/internal/crc32c"
)

// Sum adds b to a checksum (PROTOCOL §3.4).
func Sum(crc uint32, b []byte) uint32 { return crc32c.Update(crc, b) }

// SumFirst returns the checksum of a packet's full packet number, its full message number (zero in a control packet), and its first
// fragment without the CRC itself (PROTOCOL §3.4). The first fragment holds at least the base header. Further fragments follow with
// Sum.
func SumFirst(number uint64, message uint32, first []byte) uint32 {
	h := (*[CRCOffset]byte)(first)
	head := crc32c.UpdateWords(0, &[4]uint64{
		number,
		uint64(message)<<32 | uint64(binary.BigEndian.Uint32(h[:])),
		binary.BigEndian.Uint64(h[4:]),
		binary.BigEndian.Uint64(h[12:]),
	})
	return Sum(head, first[BaseHeaderLen:])
}
