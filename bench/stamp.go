package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Each operation moves bytes that no other operation moves to the same place. They contain its stamp, eight bytes, at every step of
// the message and at its end. A full packet is longer than a step, and the last packet contains the end, so each packet carries a
// stamp, and the receiver detects a missing or wrong one. The remaining bytes are a pattern of the source slot (slotPair), which is
// compared once, at the end.

const (
	stampBytes = 8
	// A step is shorter than the payload of a packet on the narrowest path (PROTOCOL section 7). If the MTU is known and takes
	// several frames, it is shorter than a frame. Every stamp loads a cache line on either side. This takes 2 % of a stream's time
	// at MTU 1500; stamps this dense would take 9 % at 65000.
	shortStep, longStep = 1 << 10, 3 << 10
	longStepMTU         = 8 << 10
)

// step returns the distance between the stamps of a message.
func (s Spec) step() int {
	if s.MTU >= longStepMTU {
		return longStep
	}
	return shortStep
}

// errUnverified is wrapped by errors of byte checks.
var errUnverified = errors.New("verification failed")

// stampOf returns the stamp of operation k in a test with this many slots. A message shorter than a stamp has only the low bytes,
// which differ from the previous pass in the same slot.
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

// unstamped returns the offset at which msg lacks the stamp id, or -1.
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

// stamped returns an error that names operation k, into slot to, unless msg has the stamp id.
func stamped(msg []byte, step int, id, k uint64, to int) error {
	if at := unstamped(msg, step, id); at >= 0 {
		return fmt.Errorf("%w: operation %d did not transfer its bytes: the stamp at byte %d of slot %d is of another operation", errUnverified, k, at, to)
	}
	return nil
}

// readStamp returns the stamp of source slot i of Reads. It is constant, because the reader clears the stamps of the destination
// before each Read.
func readStamp(i int) uint64 { return stampIn(0, i) }
