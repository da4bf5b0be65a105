package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Every operation moves bytes that no other operation moves to the same place: its stamp, eight bytes, at every step of the message and
// at its end. A packet in the middle of a message is longer than a step, and the last packet has the end. So each packet of each
// operation carries a stamp, and the receiver detects a missing or foreign stamp. The remaining bytes are a pattern of the source slot of
// the message (slotPair). All of them are compared once, at the end.

const (
	stampBytes = 8
	// A step is shorter than what a packet holds on the narrowest path (PROTOCOL section 7), or, where the MTU is known and takes
	// several frames, than a frame of a packet: every stamp is a cache line loaded on either side, 2 % of a stream's time at
	// MTU 1500, and would be 9 % at 65000.
	shortStep, longStep = 1 << 10, 3 << 10
	longStepMTU         = 8 << 10
)

// step returns how far apart the stamps of a message are.
func (s Spec) step() int {
	if s.MTU >= longStepMTU {
		return longStep
	}
	return shortStep
}

// errUnverified marks what a check of bytes found.
var errUnverified = errors.New("verification failed")

// stampOf returns the stamp of operation k of operations that go through so many slots. Of a message shorter than a stamp only the low bytes
// count: they differ from the previous pass in the same slot, and are its number.
func stampOf(k uint64, slots int) uint64 {
	_, dst := slotPair(k, slots)
	return stampIn(k/uint64(slots), dst)
}

// stampIn returns the stamp of the operation into slot dst in a pass.
func stampIn(pass uint64, dst int) uint64 { return ^(pass | uint64(dst)<<32) }

// stamp puts id into msg.
func stamp(msg []byte, step int, id uint64) {
	if len(msg) < stampBytes {
		for i := range msg {
			msg[i] = byte(id >> (8 * i))
		}
		return
	}
	for at := 0; at+2*stampBytes <= len(msg); at += step {
		binary.LittleEndian.PutUint64(msg[at:], id)
	}
	binary.LittleEndian.PutUint64(msg[len(msg)-stampBytes:], id)
}

// unstamped returns where msg lacks the stamp id, or -1.
func unstamped(msg []byte, step int, id uint64) int {
	if len(msg) < stampBytes {
		for i := range msg {
			if msg[i] != byte(id>>(8*i)) {
				return i
			}
		}
		return -1
	}
	for at := 0; at+2*stampBytes <= len(msg); at += step {
		if binary.LittleEndian.Uint64(msg[at:]) != id {
			return at
		}
	}
	if at := len(msg) - stampBytes; binary.LittleEndian.Uint64(msg[at:]) != id {
		return at
	}
	return -1
}

// stamped returns an error that names operation k, which took slot to, unless its stamp id is in msg.
func stamped(msg []byte, step int, id, k uint64, to int) error {
	if at := unstamped(msg, step, id); at >= 0 {
		return fmt.Errorf("%w: operation %d did not move its bytes: the stamp at byte %d of slot %d is not its own", errUnverified, k, at, to)
	}
	return nil
}

// readStamp returns the stamp of source slot i of Reads. It stays: a reader clears the stamps of the destination before each Read.
func readStamp(i int) uint64 { return stampIn(0, i) }
