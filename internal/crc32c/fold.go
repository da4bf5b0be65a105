//go:build amd64 || arm64

package crc32c

import "math/bits"

const (
	shortest = 192  // least number of bytes for which a folded part and streams pay off
	block    = 8192 // bytes of one call; it bounds the table of powers
)

// powers[i] is x^(64i-32) mod P, with its bits reflected and shifted as carry-less multiplication of reflected operands needs it. This
// factor moves a word of the message 64*i bits forward (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel 2009). The folded part ends up to 3*8*steps+192 bytes before the end of the block, and steps is less than 5/9 of a
// block over 24.
type powers [640]uint64

// factors are the multipliers of the folds: the factors of one fold, which moves words by 96 or by 192 bytes, and the
// powers.
type factors struct {
	fold96, fold192 [2]uint64
	powers          powers
}

var table = &factors{fold96: moveBy(96), fold192: moveBy(192), powers: newPowers()}

// moveBy returns the factors that move the two words of a register n bytes forward.
func moveBy(n int) [2]uint64 { return [2]uint64{power(8*n + 32), power(8*n - 32)} }

// polynomial is P without its highest term, highest power first.
const polynomial = 0x1edc6f41

// times returns r*x mod P.
func times(r uint32) uint32 { return r<<1 ^ r>>31*polynomial }

// factor reflects a power in the form that the folds need.
func factor(r uint32) uint64 { return uint64(bits.Reverse32(r)) << 1 }

// divided returns r/x mod P. P has a constant term, so that x divides r or r+P.
func divided(r uint32) uint32 { return r>>1 ^ -(r&1)&(polynomial>>1|1<<31) }

// power returns the factor of x^n.
func power(n int) uint64 {
	r := uint32(1)
	for range n {
		r = times(r)
	}
	for range -n {
		r = divided(r)
	}
	return factor(r)
}

func newPowers() (t powers) {
	r := uint32(1)
	for range 32 {
		r = divided(r)
	}
	for i := range t {
		t[i] = factor(r)
		for range 64 {
			r = times(r)
		}
	}
	return t
}

// update adds p to the inverted checksum crc.
func update(crc uint32, p []byte) uint32 {
	for len(p) > block {
		crc = foldBlock(crc, p[:block])
		p = p[block:]
	}
	if len(p) == 0 {
		return crc
	}
	return foldBlock(crc, p)
}
