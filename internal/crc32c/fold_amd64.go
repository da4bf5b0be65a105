package crc32c

import (
	"math/bits"

	"golang.org/x/sys/cpu"
)

const (
	shortest = 192  // bytes that are worth splitting into a folded part and streams
	block    = 8192 // bytes of one call: bounds the table of powers
)

// powers holds x^(64i-32) mod P at i, for i > 0, with its bits reflected and shifted as carry-less multiplication of
// reflected operands wants it: the factor that takes a word of the message 64*i bits further (Gopal et al., "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009). The folded part stands up to
// 3*8*steps+96 bytes in front of the end, and steps are fewer than 5/9 of a block over 24.
type powers [640]uint64

// factors are what the folds multiply by: that of a fold, which moves words by 96 bytes, and the powers.
type factors struct {
	fold   [2]uint64
	powers powers
}

var table = &factors{fold: [2]uint64{power(8*96 + 32), power(8*96 - 32)}, powers: newPowers()}

// polynomial is P without its highest term, highest power first.
const polynomial = 0x1edc6f41

// times returns r*x mod P.
func times(r uint32) uint32 { return r<<1 ^ r>>31*polynomial }

// factor reflects a power as the folds want it.
func factor(r uint32) uint64 { return uint64(bits.Reverse32(r)) << 1 }

// power returns the factor of x^n.
func power(n int) uint64 {
	r := uint32(1)
	for range n {
		r = times(r)
	}
	return factor(r)
}

func newPowers() (t powers) {
	r := uint32(1) // x^0
	for n, i := 0, 1; i < len(t); n++ {
		if n == 64*i-32 {
			t[i] = factor(r)
			i++
		}
		r = times(r)
	}
	return t
}

//go:noescape
func fold128(crc uint32, p *byte, n int, t *factors) uint32

//go:noescape
func fold256(crc uint32, p *byte, n int, t *factors) uint32

func cpuid(leaf uint32) (ebx, ecx uint32)

// What this processor can do. The CPU package tells of VPCLMULQDQ only together with AVX-512, which fold256 does not need.
var (
	has128 = cpu.X86.HasSSE42 && cpu.X86.HasAVX && cpu.X86.HasPCLMULQDQ
	has256 = has128 && cpu.X86.HasAVX2 && hasVPCLMULQDQ()
)

func hasVPCLMULQDQ() bool {
	_, ecx := cpuid(7)
	return ecx&(1<<10) != 0
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

func foldBlock(crc uint32, p []byte) uint32 {
	if has256 {
		return fold256(crc, &p[0], len(p), table)
	}
	return fold128(crc, &p[0], len(p), table)
}
