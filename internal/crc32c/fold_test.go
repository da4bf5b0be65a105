//go:build amd64 || arm64

package crc32c

import "testing"

// The factors for 64 bytes equal those in the white paper's tables for this polynomial.
func TestPowers(t *testing.T) {
	if got, want := [2]uint64{power(512 + 32), power(512 - 32)}, [2]uint64{0x0740eef02, 0x09e4addf8}; got != want {
		t.Errorf("%x, want %x", got, want)
	}
	for _, i := range []int{0, 1, 2, 639} {
		if table.powers[i] != power(64*i-32) {
			t.Errorf("factor %d: %x, want %x", i, table.powers[i], power(64*i-32))
		}
	}
}

// with makes an update function that calls fold for each block.
func with(fold func(uint32, *byte, int, *factors) uint32) func(uint32, []byte) uint32 {
	return func(crc uint32, p []byte) uint32 {
		crc = ^crc
		for len(p) > 0 {
			n := min(len(p), block)
			crc = fold(crc, &p[0], n, table)
			p = p[n:]
		}
		return ^crc
	}
}
