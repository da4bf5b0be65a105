package ndnet

import (
	"context"
	"errors"
	"testing"
)

// A bell tells who asked last, at once and without a goroutine, of every ring until that one does not want to hear, and lasts.
func TestBell(t *testing.T) {
	b := newBell()
	rings := 0
	b.ring() // nobody hears
	if !errors.Is(b.Err(), context.Canceled) {
		t.Errorf("rung: %v", b.Err())
	}
	for range 3 {
		b.reset()
		if b.Err() != nil {
			t.Errorf("after reset: %v", b.Err())
		}
		forget := b.AfterFunc(func() {
			if rings++; b.Err() == nil { // it may be asked from there
				t.Error("heard before it is rung")
			}
		})
		b.ring()
		b.ring()
		forget()
		b.ring()
	}
	if rings != 6 {
		t.Errorf("heard %d times, want 6", rings)
	}
	select {
	case <-b.Done():
		t.Error("it is over")
	default:
	}
}
