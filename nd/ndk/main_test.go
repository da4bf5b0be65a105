package ndk

import (
	"testing"

	"go.uber.org/goleak"
)

// When every test has closed what it opened, no goroutine of an adapter or of a callback may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
