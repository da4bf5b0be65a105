package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// A list that changed while it was read is read again, but not for ever; any other error is told at once.
func TestListsAreReadAgain(t *testing.T) {
	for _, c := range []struct {
		name        string
		interrupted int   // attempts that the kernel interrupts
		then        error // what the attempt after those ends with
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

// Interfaces of others come and go, as on a machine with many containers: adapters open.
func TestOpensWhileInterfacesComeAndGo(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	veth := func(i int) netlink.Link {
		return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("here%d", i)}, PeerName: fmt.Sprintf("there%d", i)}
	}
	const crowd = 50 // pairs: the kernel tells of so many in several messages
	must(t, pair.A.Do(func() error {
		for i := range crowd {
			must(t, netlink.LinkAdd(veth(i)))
		}
		return nil
	}))
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- pair.A.Do(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := errors.Join(netlink.LinkAdd(veth(crowd)), netlink.LinkDel(veth(crowd))); err != nil {
					return err
				}
			}
		})
	}()
	defer func() {
		close(stop)
		must(t, <-done)
	}()
	must(t, pair.A.Do(func() error {
		for range 300 {
			d, err := Open(Config{Address: pair.AddrA.Addr(), Rung: RungUDP})
			if err != nil {
				return err
			}
			must(t, d.Close())
		}
		return nil
	}))
}
