package testhelp

import (
	"strings"
	"testing"
	"testing/synctest"
)

func wait(end chan struct{}) { <-end }

// A goroutine that stays is found and shown. Those that are known, that end, or that have a named function are not.
func TestLeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the minute passes at once
		const function = "testhelp.wait"
		before := RunningGoroutines()
		end := make(chan struct{})
		go wait(end)
		synctest.Wait()
		if err := before.Leak(); err == nil || !strings.Contains(err.Error(), "1 goroutines are left") || !strings.Contains(err.Error(), function) {
			t.Errorf("a goroutine that stays: %v", err)
		}
		if err := before.Leak(function); err != nil {
			t.Errorf("a goroutine that may stay: %v", err)
		}
		if err := RunningGoroutines().Leak(); err != nil {
			t.Errorf("a known goroutine: %v", err)
		}
		close(end)
		if err := before.Leak(); err != nil {
			t.Errorf("a goroutine that ends: %v", err)
		}
	})
}
