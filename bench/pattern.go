package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// poison fills destinations before a run, so that an unwritten byte is never right by accident.
const poison = 0xA5

// patternWord returns the eight bytes at word index i of the pattern named seed: splitmix64. Every byte depends on its offset and
// on the seed, so shifted, swapped and stale blocks are detected.
func patternWord(seed, i uint64) uint64 {
	z := seed*0x9E3779B97F4A7C15 + (i+1)*0xD1B54A32D192ED03
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// FillPattern writes the pattern named seed over dst.
func FillPattern(dst []byte, seed uint64) {
	var i uint64
	for len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, patternWord(seed, i))
		dst = dst[8:]
		i++
	}
	var tail [8]byte
	binary.LittleEndian.PutUint64(tail[:], patternWord(seed, i))
	copy(dst, tail[:])
}

// firstDifference returns the offset of the first difference between two messages of the same length, or -1.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// fillSlots writes a different pattern into each source slot.
func fillSlots(buf []byte, size, slots int, seed uint64) {
	for i := range slots {
		FillPattern(buf[i*size:(i+1)*size], slotSeed(seed, i))
	}
}

// verifySlots checks every byte of each destination slot after ops operations. mark writes the stamp of operation k, from slot src,
// into a message.
func verifySlots(buf []byte, size, slots int, seed, ops uint64, mark func(msg []byte, k uint64, src int)) error {
	want := make([]byte, size)
	for i := range slots {
		slot := buf[i*size : (i+1)*size]
		k, written := lastInto(ops, i, slots)
		if !written {
			for off, b := range slot {
				if b != poison {
					return fmt.Errorf("%w: byte %d of slot %d was written although only %d operations ran", errUnverified, off, i, ops)
				}
			}
			continue
		}
		src, _ := slotPair(k, slots)
		FillPattern(want, slotSeed(seed, src))
		mark(want, k, src)
		if off := firstDifference(slot, want); off >= 0 {
			return fmt.Errorf("%w: byte %d of slot %d (of %d, after %d operations) is %#02x, which is not what was sent", errUnverified,
				off, i, slots, ops, slot[off])
		}
	}
	return nil
}

func slotSeed(seed uint64, slot int) uint64 { return seed<<16 ^ uint64(slot) }

func fillPoison(buf []byte) {
	for i := range buf {
		buf[i] = poison
	}
}
