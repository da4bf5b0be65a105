package nd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
)

// requireIPsec makes a namespace require ESP for all packets to a host, without a key to encrypt them with.
func requireIPsec(t *testing.T, ns *netlab.Namespace, from, to netip.Addr) {
	t.Helper()
	network := func(a netip.Addr) *net.IPNet {
		return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
	}
	err := ns.Do(func() error {
		return netlink.XfrmPolicyAdd(&netlink.XfrmPolicy{
			Src: network(from), Dst: network(to), Dir: netlink.XFRM_DIR_OUT,
			Tmpls: []netlink.XfrmPolicyTmpl{{Src: from.AsSlice(), Dst: to.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TRANSPORT}},
		})
	})
	if errors.Is(err, syscall.EPROTONOSUPPORT) || errors.Is(err, syscall.EAFNOSUPPORT) {
		t.Skip("this kernel has no IPsec: ", err)
	}
	must(t, err)
}

// withoutState returns how many packets a namespace has dropped because a policy requires IPsec and there is no key.
func withoutState(t *testing.T, ns *netlab.Namespace) (n int) {
	t.Helper()
	must(t, ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/xfrm_stat")
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if f := bytes.Fields(line); len(f) == 2 && string(f[0]) == "XfrmOutNoStates" {
				n, err = strconv.Atoi(string(f[1]))
			}
		}
		return err
	}))
	return n
}

// A host's IPsec policy does not protect traffic of AF_XDP: a connection is made, in the clear, although the policy requires ESP. The
// policy stops the packets of plain sockets. SECURITY.md says so.
func TestIPsecPolicyIsBypassed(t *testing.T) {
	t.Parallel()
	for _, dp := range []Datapath{DatapathGeneric, DatapathUDP} {
		r := newRig(t, 1500, dp)
		requireIPsec(t, r.pair.A, r.addr[0], r.addr[1])
		if dp.OverSockets() {
			client := newEnd(t, r.a, 64)
			_, at := listen(t, r.b, 0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			connecting := start(func() error { return client.ctr.Connect(ctx, client.qp, at, ConnectParams{}) })
			eventually(t, "the kernel drops the request", func() bool { return withoutState(t, r.pair.A) > 0 })
			cancel()
			wantStatus(t, "connect", finish(t, "connect", connecting), ErrCanceled)
			continue
		}
		r.connect(t, 4096)
		if n := withoutState(t, r.pair.A); n != 0 {
			t.Errorf("the kernel dropped %d packets of %s", n, dp)
		}
	}
}
