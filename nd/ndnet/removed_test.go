package ndnet

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// If the interface is deleted during streams, readers and writers get that cause, and not a reset by the peer.
func TestInterfaceRemovedUnderStreams(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	var n [2]*Network
	for i, ns := range []*netlab.Namespace{pair.A, pair.B} {
		must(t, ns.Do(func() error {
			a, err := nd.OpenAdapter(nd.AdapterConfig{Address: []netip.Prefix{pair.AddrA, pair.AddrB}[i].Addr(), Datapath: nd.DatapathUDP})
			must(t, err)
			t.Cleanup(func() { must(t, a.Close()) })
			n[i], err = New(a, Config{})
			return err
		}))
	}
	const streams = 8
	ends, told := pairs(t, n, streams), make(chan error, 3*streams)
	for _, e := range ends {
		go func() {
			_, err := io.Copy(io.Discard, e[1])
			told <- err
		}()
		go func() {
			_, err := io.Copy(io.Discard, e[0])
			told <- err
		}()
		go func() {
			var err error
			for p := make([]byte, 64<<10); err == nil; {
				_, err = e[0].Write(p)
			}
			told <- err
		}()
	}
	must(t, pair.A.Do(func() error {
		return netlink.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.IfindexA}})
	}))
	for range cap(told) {
		if err := <-told; !errors.Is(err, syscall.ENETDOWN) || !strings.Contains(err.Error(), "was removed") {
			t.Errorf("told: %v", err)
		}
	}
	for _, e := range ends {
		must(t, errors.Join(e[0].Close(), e[1].Close()))
	}
}
