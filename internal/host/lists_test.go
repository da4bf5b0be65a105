package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A list that changed during the read is read again, a limited number of times. Any other error is returned at once.
func TestListsAreReadAgain(t *testing.T) {
	for _, c := range []struct {
		name        string
		interrupted int   // attempts that the kernel interrupts
		then        error // the result of the attempt after these
		calls       int
		want        error
	}{
		{"at once", 0, nil, 1, nil},
		{"it changed", 3, nil, 4, nil},
		{"it never stands still", listTries + 5, nil, listTries, netlink.ErrDumpInterrupted},
		{"it fails", 1, unix.EIO, 2, unix.EIO},
	} {
		calls := 0
		all, err := whole("things", func() ([]int, error) {
			if calls++; calls <= c.interrupted {
				return []int{1}, netlink.ErrDumpInterrupted
			}
			return []int{1, 2}, c.then
		})
		if !errors.Is(err, c.want) || calls != c.calls || err == nil && len(all) != 2 || err != nil && !strings.HasPrefix(err.Error(), "list things: ") {
			t.Errorf("%s: %v, %v after %d attempts, want %v after %d", c.name, all, err, calls, c.want, c.calls)
		}
	}
}
