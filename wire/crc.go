package wire

import (
	"hash/crc32"

	"github.com/ndxdp/ndxdp/internal/crc32c"
)

// castagnoli is the table of CRC32C for one byte at a time.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pseudoTables extends castagnoli for eight bytes at a time (slicing-by-8), for Seed only.
var pseudoTables = makePseudoTables()

func makePseudoTables() (t [8][256]uint32) {
	for i := range t[0] {
		c := castagnoli[i]
		t[0][i] = c
		for k := 1; k < len(t); k++ {
			c = castagnoli[c&0xff] ^ c>>8
			t[k][i] = c
		}
	}
	return t
}

// Seed returns the CRC32C of the pseudo header, from which the packet's own checksum goes on (PROTOCOL §3.4). It depends
// only on the path, so a connection computes it once per direction.
//
// It has its own loop because its argument would escape where crc32c falls back to the standard library: a buffer for the
// pseudo header would have to come from the heap, once per packet where no connection is known yet.
func Seed(src, dst Endpoint) uint32 {
	c := ^uint32(0)
	c = pseudo8(c, src.word(0))
	c = pseudo8(c, src.word(1))
	c = pseudo8(c, dst.word(0))
	c = pseudo8(c, dst.word(1))
	for _, b := range [4]byte{byte(src.Port >> 8), byte(src.Port), byte(dst.Port >> 8), byte(dst.Port)} {
		c = pseudoTables[0][byte(c)^b] ^ c>>8
	}
	return ^c
}

// pseudo8 adds the eight bytes of w, most significant first.
func pseudo8(c uint32, w uint64) uint32 {
	t := &pseudoTables
	return t[7][byte(w>>56)^byte(c)] ^ t[6][byte(w>>48)^byte(c>>8)] ^
		t[5][byte(w>>40)^byte(c>>16)] ^ t[4][byte(w>>32)^byte(c>>24)] ^
		t[3][byte(w>>24)] ^ t[2][byte(w>>16)] ^ t[1][byte(w>>8)] ^ t[0][byte(w)]
}

// Sum adds b to a checksum (PROTOCOL §3.4).
func Sum(crc uint32, b []byte) uint32 { return crc32c.Update(crc, b) }

// SumFirst adds the first fragment of a packet, which holds at least the base header, to the seed of its path: all of it
// but the CRC itself (PROTOCOL §3.4). Further fragments follow with Sum.
func SumFirst(seed uint32, first []byte) uint32 {
	return Sum(Sum(seed, first[:CRCOffset]), first[BaseHeaderLen:])
}
