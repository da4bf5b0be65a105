package crc32c

import "golang.org/x/sys/cpu"

//go:noescape
func foldPMULL(crc uint32, p *byte, n int, t *factors) uint32

// These are the abilities of this processor.
var folds = cpu.ARM64.HasCRC32 && cpu.ARM64.HasPMULL

// foldBlock adds up to a block to the inverted checksum crc.
func foldBlock(crc uint32, p []byte) uint32 { return foldPMULL(crc, &p[0], len(p), table) }
