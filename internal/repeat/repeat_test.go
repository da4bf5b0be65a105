package repeat

import (
	"testing"
	"testing/synctest"
	"time"
)

// The function is called in time, and never after it was stopped.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		stop := Every(time.Second, func() { n++ })
		time.Sleep(3500 * time.Millisecond)
		stop()
		if n != 3 {
			t.Errorf("%d times in three and a half", n)
		}
		time.Sleep(time.Minute)
		if n != 3 {
			t.Errorf("%d times after it was stopped", n-3)
		}
	})
}
