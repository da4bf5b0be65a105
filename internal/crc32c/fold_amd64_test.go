package crc32c

import (
	"testing"

	"golang.org/x/sys/cpu"
)

// foldings returns the implementations of this architecture that the processor supports.
func foldings() map[string]func(uint32, []byte) uint32 {
	all := map[string]func(uint32, []byte) uint32{}
	if folds {
		all["fold128"] = with(fold128)
	}
	if has256 {
		all["fold256"] = with(fold256)
	}
	if has512 {
		all["fold512"] = with(func(crc uint32, p *byte, n int, t *factors) uint32 {
			if n < shortest512 { // as foldBlock does
				return fold256(crc, p, n, t)
			}
			return fold512(crc, p, n, t)
		})
	}
	return all
}

// If package cpu detects the instruction as well, both detections agree.
func TestDetection(t *testing.T) {
	if cpu.X86.HasAVX512VPCLMULQDQ && !has512 {
		t.Error("the processor has VPCLMULQDQ, and fold512 is not used")
	}
}
