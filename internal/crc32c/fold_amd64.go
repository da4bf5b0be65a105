package crc32c

import (
	"golang.org/x/sys/cpu"
)

// shortest512 is the least number of bytes for fold512.
const shortest512 = 216

//go:noescape
func fold128(crc uint32, p *byte, n int, t *factors) uint32

//go:noescape
func fold256(crc uint32, p *byte, n int, t *factors) uint32

//go:noescape
func fold512(crc uint32, p *byte, n int, t *factors) uint32

func cpuid(leaf uint32) (ebx, ecx uint32)

// These are the abilities of this processor. The CPU package reports VPCLMULQDQ only together with AVX-512, which fold256 does not need.
var (
	folds  = cpu.X86.HasSSE42 && cpu.X86.HasAVX && cpu.X86.HasPCLMULQDQ
	has256 = folds && cpu.X86.HasAVX2 && hasVPCLMULQDQ()
	has512 = has256 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ
)

func hasVPCLMULQDQ() bool {
	_, ecx := cpuid(7)
	return ecx&(1<<10) != 0
}

// foldBlock adds up to a block to the inverted checksum crc.
func foldBlock(crc uint32, p []byte) uint32 {
	if has512 && len(p) >= shortest512 {
		return fold512(crc, &p[0], len(p), table)
	}
	if has256 {
		return fold256(crc, &p[0], len(p), table)
	}
	return fold128(crc, &p[0], len(p), table)
}
