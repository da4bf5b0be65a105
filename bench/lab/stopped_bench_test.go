package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// A receiver is stopped for 5 ms of every 20 ms. In the remaining time, the stream keeps nine tenths of its goodput. The other tenth is
// for the first round trip after each pause, when the receiver handles the packets that waited.
func BenchmarkStoppedReceiver(b *testing.B) {
	program := netlabtest.Build(b, "../../nd/testdata/peer")
	for _, mtu := range []int{1500, 9000} {
		b.Run(fmt.Sprint("MTU", mtu), func(b *testing.B) {
			f, receiver := newStoppable(b, program, mtu)
			judge(b, func(figs *figures) {
				run := start(b, f)
				defer run.stop(b)
				time.Sleep(settle)
				moved, took := run.moved(func() { time.Sleep(500 * time.Millisecond) })
				clean := mbits(moved[0], took)
				ctx, cancel := context.WithTimeout(b.Context(), 500*time.Millisecond)
				defer cancel()
				var off time.Duration
				var err error
				moved, took = run.moved(func() { _, off, err = receiver.StopAndGo(ctx, 5*time.Millisecond, 15*time.Millisecond) })
				must(b, err)
				figs.atLeast("of-goodput-while-on", mbits(moved[0], took-off)/clean, 0.9, 0.1)
			})
			receiver.End(b)
		})
	}
}

// newStoppable connects a flow to another process, which can be stopped, over a veth pair.
func newStoppable(b *testing.B, program string, mtu int) (*flow, *netlabtest.Process) {
	b.Helper()
	pair := netlabtest.Pair(b, netlab.PairConfig{MTU: mtu})
	addr := pair.AddrB.Addr()
	var a *nd.Adapter
	must(b, pair.B.Do(func() (err error) {
		a, err = nd.OpenAdapter(nd.AdapterConfig{Address: addr, UDPPort: udpPort})
		return err
	}))
	b.Cleanup(func() { must(b, a.Close()) })
	l, err := a.CreateListener()
	must(b, err)
	defer func() { must(b, l.Close()) }()
	must(b, l.Bind(netip.AddrPortFrom(addr, 0)))
	must(b, l.Listen(1))
	at, err := l.LocalAddress()
	must(b, err)
	receiver := netlabtest.Start(b, pair.A, program, pair.AddrA.Addr().String(), at.String(), nd.DatapathAuto.String())
	f := &flow{size: 1 << 20, depth: 4, from: newEnd(b, a, 1<<20, 4)}
	must(b, l.GetConnectionRequest(b.Context(), f.from.ctr))
	granted, err := f.from.ctr.PrivateData()
	must(b, err)
	f.addr, f.token = binary.BigEndian.Uint64(granted), nd.Token(binary.BigEndian.Uint32(granted[8:]))
	must(b, f.from.ctr.Accept(b.Context(), f.from.qp, nd.ConnectParams{PrivateData: granted}))
	return f, receiver
}
