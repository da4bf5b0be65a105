package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Sizes of content.
const (
	small = 64
	kib   = 1 << 10
	mib   = 1 << 20
)

// stampEvery is the distance between places of a content that hold their own offset, so that bytes from another place are detected
// at little cost.
const stampEvery = 4 * kib

// stampSize is the length of a stamp.
const stampSize = 8

// errWrong means that received bytes differ from sent bytes.
var errWrong = errors.New("the bytes are not the bytes that were sent")

// content makes bytes that a verifier recognises. The seed distinguishes contents.
func content(size int, seed uint64) []byte {
	b := make([]byte, size)
	stamp(b, seed)
	return b
}

// stamp writes the stamps of a content with this seed into b.
func stamp(b []byte, seed uint64) {
	for at := 0; at+stampSize <= len(b); at += stampEvery {
		binary.LittleEndian.PutUint64(b[at:], seed+uint64(at)<<32)
	}
}

// stamped checks a whole content.
func stamped(b []byte, size int, seed uint64) error {
	v := verifier{size: size, seed: seed}
	if _, err := v.Write(b); err != nil {
		return err
	}
	return v.whole()
}

// verifier checks a content that arrives in parts.
type verifier struct {
	size int
	seed uint64
	at   int
}

var _ io.Writer = (*verifier)(nil)

// Write checks the stamps within p. It skips a stamp that lies in two parts.
func (v *verifier) Write(p []byte) (int, error) {
	if err := v.check(p, v.at); err != nil {
		return 0, err
	}
	v.at += len(p)
	return len(p), nil
}

// check checks the bytes of a content from an offset on. It is safe for concurrent use.
func (v *verifier) check(p []byte, from int) error {
	if from+len(p) > v.size {
		return fmt.Errorf("%w: %d bytes or more of %d", errWrong, from+len(p), v.size)
	}
	for at := (from + stampEvery - 1) / stampEvery * stampEvery; at+stampSize <= from+len(p); at += stampEvery {
		if got, want := binary.LittleEndian.Uint64(p[at-from:]), v.seed+uint64(at)<<32; got != want {
			return fmt.Errorf("%w: %#x at byte %d instead of %#x", errWrong, got, at, want)
		}
	}
	return nil
}

// whole returns an error if bytes are missing.
func (v *verifier) whole() error {
	if v.at != v.size {
		return fmt.Errorf("%w: %d bytes of %d", errWrong, v.at, v.size)
	}
	return nil
}
