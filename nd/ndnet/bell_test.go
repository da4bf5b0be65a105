package ndnet

import (
	"context"
	"errors"
	"testing"
)

// A bell calls the last registered function at every ring, without a goroutine, until the function is removed. The bell can be used
// again afterwards.
func TestBell(t *testing.T) {
	b := newBell()
	rings := 0
	b.ring() // no function is registered
	if !errors.Is(b.Err(), context.Canceled) {
		t.Errorf("rung: %v", b.Err())
	}
	for range 3 {
		b.reset()
		if b.Err() != nil {
			t.Errorf("after reset: %v", b.Err())
		}
		forget := b.AfterFunc(func() {
			if rings++; b.Err() == nil { // the function may query it
				t.Error("called before the bell was rung")
			}
		})
		b.ring()
		b.ring()
		forget()
		b.ring()
	}
	if rings != 6 {
		t.Errorf("called %d times, want 6", rings)
	}
	select {
	case <-b.Done():
		t.Error("it is over")
	default:
	}
}
