package nd

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// markable counts an adapter's packets that are sent with ECT(0).
type markable struct{ packets, sent atomic.Uint64 }

// Packet implements provider.Tap.
func (m *markable) Packet(p *provider.TapPacket) {
	if p.Sent {
		m.sent.Add(1)
	}
	if p.Sent && p.ECN != wire.NotECT {
		m.packets.Add(1)
	}
}

// If AdapterConfig.NoECN is set on either side, neither side sends packets with ECT(0).
func TestNoECN(t *testing.T) {
	t.Parallel()
	for _, off := range [][2]bool{{}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			r := &rig{addr: netlabtest.Loopback()}
			port := netlabtest.FreePort(t)
			var sides [2]markable
			for i, a := range []**Adapter{&r.a, &r.b} {
				opened, err := OpenAdapter(AdapterConfig{Address: r.addr[i], UDPPort: port, Datapath: DatapathUDP, NoECN: off[i]})
				must(t, err)
				t.Cleanup(func() { must(t, opened.Close()) })
				*a = opened
				for _, s := range opened.verbs.Shards {
					s.Do(func(e *provider.Engine) { e.SetTap(&sides[i]) })
				}
			}
			client, server := r.connect(t, 4096)
			must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 4096)}, server.mr.Address(), server.mr.RemoteToken(), 0))
			client.wantResult(t, 1, RequestWrite, StatusSuccess)
			must(t, client.qp.Read(2, []SGE{client.mr.SGE(0, 4096)}, server.mr.Address(), server.mr.RemoteToken(), 0))
			client.wantResult(t, 2, RequestRead, StatusSuccess)
			for i := range sides {
				if sent, can := sides[i].sent.Load(), sides[i].packets.Load(); sent == 0 || can > 0 == (off[0] || off[1]) {
					t.Errorf("side %d sent %d packets, %d that can be marked", i, sent, can)
				}
			}
		})
	}
}
