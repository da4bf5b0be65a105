// Package crc32c computes CRC32C (Castagnoli), the checksum of packets (PROTOCOL §3.4), faster than hash/crc32 where the
// processor multiplies without carry.
//
// One CRC32 instruction takes eight bytes and one cycle, and that is what hash/crc32 is bound by. A carry-less
// multiplication moves a piece of the message to a later place of equal remainder ("folding"), in other units of the
// processor. So a part of each block is folded while the rest of it goes through three streams of CRC32 instructions, and
// both are put together at the end. Functions are safe for concurrent use.
package crc32c
