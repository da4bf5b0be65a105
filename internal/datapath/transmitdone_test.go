package datapath

import (
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/xdp"
)

// slowDevice makes a macvlan interface on which packets wait in the kernel: the pair's side below it sends 50 kB a second. It
// returns the interface's index.
func slowDevice(t *testing.T, pair *netlab.Pair) (index int) {
	t.Helper()
	must(t, pair.A.Do(func() error {
		parent, err := netlink.LinkByName(pair.NameA)
		if err != nil {
			return err
		}
		const rate, burst, tickShift = 50_000, 2000, 6 // one tick of a token bucket is 64 ns
		below := parent.Attrs().Index
		err = netlink.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: below, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       rate, Limit: 1 << 20, Buffer: burst * uint32(time.Second/rate) >> tickShift,
		})
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = "slow", below
		slow := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
		if err = errors.Join(err, netlink.LinkAdd(slow)); err == nil {
			index, err = slow.Attrs().Index, netlink.LinkSetUp(slow)
		}
		return err
	}))
	return index
}

// TestTransmitDoneWaitsForTheDevice: after the kernel has taken packets from the ring, a device may still read their memory.
func TestTransmitDoneWaitsForTheDevice(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	index := slowDevice(t, pair)
	umem, err := xdp.NewUMEM(xdp.UMEMConfig{RxFrames: 64, TxFrames: 16})
	must(t, err)
	var sock *xdp.Socket
	must(t, pair.A.Do(func() (err error) {
		sock, err = xdp.Open(umem, xdp.Config{
			Ifindex: index, Mode: xdp.ModeCopy, RxRing: 32, FillRing: 32, TxRing: 16, CompletionRing: 16, RxFrames: 64, TxFrames: 16,
		})
		return err
	}))
	t.Cleanup(func() { must(t, errors.Join(sock.Close(), umem.Close())) })
	q := &queue{device: &xdpDevice{umem: umem}, sock: sock}
	if !q.TransmitDone() {
		t.Fatal("not done before anything was sent")
	}
	var descs []xdp.Desc
	for range 10 {
		addr, _ := sock.AllocTx()
		copy(umem.Frame(addr), "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x88\xb5") // a broadcast, of an experimental type
		descs = append(descs, xdp.Desc{Addr: addr, Len: 1000})
	}
	if n := sock.Transmit(descs); n != len(descs) {
		t.Fatalf("Transmit took %d", n)
	}
	if q.TransmitDone() || sock.TxUnsent() > 0 {
		t.Fatalf("done while the kernel has the packets (%d are in the ring)", sock.TxUnsent())
	}
	for end := time.Now().Add(patience); !q.TransmitDone(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d packets never came back", sock.TxPending())
		}
	}
}
