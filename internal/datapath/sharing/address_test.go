package sharing

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ndxdp/ndxdp/internal/udp"
)

// A process that ends releases the name of the well-known port before the port itself. The next owner waits for the port for a
// moment, and not if another program keeps it.
func TestPortOfOneThatEnds(t *testing.T) {
	taken := fmt.Errorf("open: %w", udp.ErrPortTaken)
	for _, x := range []struct {
		what       string
		fails      int // failed attempts
		with, want error
		attempts   int // the least number of attempts
	}{
		{"free", 0, nil, nil, 1},
		{"free soon", 3, taken, nil, 4},
		{"a program that stays", 1 << 30, taken, udp.ErrPortTaken, 2},
		{"another error", 1, errOther, errOther, 1},
	} {
		attempts := 0
		_, err := Patiently(func() (*udp.Socket, error) {
			if attempts++; attempts <= x.fails {
				return nil, x.with
			}
			return nil, nil
		})
		if !errors.Is(err, x.want) || attempts < x.attempts || x.want == nil && attempts != x.attempts {
			t.Errorf("%s: %v after %d attempts, want %v", x.what, err, attempts, x.want)
		}
	}
}

var errOther = errors.New("closing")
