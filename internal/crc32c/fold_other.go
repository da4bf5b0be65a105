//go:build !amd64

package crc32c

const has128 = false

func update(uint32, []byte) uint32 { panic("crc32c: no folding on this architecture") }
