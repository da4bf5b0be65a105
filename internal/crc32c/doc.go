// Package crc32c computes CRC32C (Castagnoli), the checksum of packets (PROTOCOL §3.4). It is faster than hash/crc32 on processors with
// carry-less multiplication.
//
// One CRC32 instruction takes eight bytes and one cycle, which limits the speed of hash/crc32. A carry-less multiplication in other units
// of the processor moves a part of the message to a later offset with an equal remainder ("folding"). So a part of each block is folded
// while the rest of the block goes through three streams of CRC32 instructions. At the end both results are combined. Functions are safe
// for concurrent use.
package crc32c
