package host

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

var firstMAC, secondMAC = [6]byte{0x02, 0, 0, 0, 0xbe, 0xef}, [6]byte{0x02, 0, 0, 0, 0xbe, 0xf0}

// TestNeighbourTable: entries are read and refreshed in the kernel's table, for IPv4 and IPv6.
func TestNeighbourTable(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: true})
	var table *neighbourTable
	four, six := netip.MustParseAddr("10.99.0.77"), netip.MustParseAddr("fd00:99::77")
	set := func(at netip.Addr, state int, mac []byte) {
		t.Helper()
		must(t, pair.A.Do(func() error {
			return netlink.NeighSet(&netlink.Neigh{LinkIndex: pair.IfindexA, IP: at.AsSlice(), HardwareAddr: net.HardwareAddr(mac), State: state})
		}))
	}
	look := func(at netip.Addr) Neighbour {
		t.Helper()
		n, err := table.look(pair.IfindexA, at)
		must(t, err)
		return n
	}
	must(t, pair.A.Do(func() (err error) {
		table, err = openNeighbourTable()
		return err
	}))
	for _, at := range []netip.Addr{four, six} {
		if n := look(at); n != (Neighbour{}) {
			t.Errorf("%s, which was not requested: %+v", at, n)
		}
		must(t, table.use(pair.IfindexA, at))
		if n := look(at); n.Known || n.State&unix.NUD_INCOMPLETE == 0 {
			t.Errorf("%s, which is used: %+v", at, n)
		}
		set(at, unix.NUD_PERMANENT, firstMAC[:])
		set(netip.AddrFrom4([4]byte{10, 99, 0, 78}), unix.NUD_PERMANENT, secondMAC[:]) // another neighbour
		if n := look(at); !n.Known || n.MAC != firstMAC || n.State != unix.NUD_PERMANENT {
			t.Errorf("%s, which was set: %+v", at, n)
		}
	}
	// An unread answer is not mistaken for the answer to the next request.
	table.write(unix.RTM_GETNEIGH, 0, pair.IfindexA, six, 0)
	if _, err := unix.Write(table.fd, table.request); err != nil {
		t.Fatal(err)
	}
	if n := look(netip.AddrFrom4([4]byte{10, 99, 0, 78})); n.MAC != secondMAC {
		t.Errorf("%+v is the answer to another request", n)
	}
	if n, err := table.look(1<<20, four); n != (Neighbour{}) || err != nil {
		t.Errorf("on an interface that was removed: %+v, %v", n, err)
	}
	must(t, table.close())
	must(t, table.close())
	if _, err := table.look(pair.IfindexA, four); !errors.Is(err, unix.EBADF) {
		t.Errorf("after close: %v", err)
	}
	if err := table.use(pair.IfindexA, four); !errors.Is(err, unix.EBADF) {
		t.Errorf("after close: %v", err)
	}
}

// Parsing stops at an attribute that is truncated, exceeds the list, or is shorter than an attribute header.
func TestAttributesThatAreNotWhole(t *testing.T) {
	entry := func(length uint16, value ...byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, length)
		return append(binary.NativeEndian.AppendUint16(b, unix.NDA_DST), value...)
	}
	whole := entry(7, 1, 2, 3) // without padding
	if kind, value, rest, ok := attribute(whole); kind != unix.NDA_DST || string(value) != "\x01\x02\x03" || len(rest) != 0 || !ok {
		t.Errorf("%d, %x, %x, %t", kind, value, rest, ok)
	}
	for _, b := range [][]byte{nil, whole[:3], whole[:6], entry(0), entry(3, 1), entry(0xffff, 1)} {
		if _, _, _, ok := attribute(b); ok {
			t.Errorf("%x is taken for an attribute", b)
		}
	}
	if _, at, n, ok := ParseNeighbour(make([]byte, unix.SizeofNdMsg-1)); ok || at.IsValid() || n != (Neighbour{}) {
		t.Error("a message without a whole header is parsed as an entry")
	}
}
