package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Sizes of what is moved.
const (
	small = 64
	kib   = 1 << 10
	mib   = 1 << 20
)

// stampEvery is how far apart the places of a content are that hold their own offset: bytes from another place are seen, for little
// processor time.
const stampEvery = 4 * kib

// stampSize is the length of a stamp.
const stampSize = 8

// errWrong says that bytes differ from the bytes that were sent.
var errWrong = errors.New("the bytes are not the bytes that were sent")

// content makes bytes that verifier recognises. The seed tells contents apart.
func content(size int, seed uint64) []byte {
	b := make([]byte, size)
	stamp(b, seed)
	return b
}

// stamp writes into b what a content of this seed has in its stamps.
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

// verifier checks a content that it gets in parts.
type verifier struct {
	size int
	seed uint64
	at   int
}

var _ io.Writer = (*verifier)(nil)

// Write checks the stamps that lie within p. One that lies in two parts is not looked at.
func (v *verifier) Write(p []byte) (int, error) {
	if err := v.check(p, v.at); err != nil {
		return 0, err
	}
	v.at += len(p)
	return len(p), nil
}

// check looks at the bytes of a content from an offset on. It may be called from several goroutines.
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

// whole says if bytes are missing.
func (v *verifier) whole() error {
	if v.at != v.size {
		return fmt.Errorf("%w: %d bytes of %d", errWrong, v.at, v.size)
	}
	return nil
}
