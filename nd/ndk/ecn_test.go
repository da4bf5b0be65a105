package ndk

import (
	"sync/atomic"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// markable counts an adapter's packets that are sent with ECT(0).
type markable struct{ atomic.Uint64 }

// Packet implements provider.Tap.
func (m *markable) Packet(p *provider.TapPacket) {
	if p.Sent && p.ECN != 0 { // ECN-capable (RFC 3168 section 5)
		m.Add(1)
	}
}

// If AdapterConfig.NoECN is set on one side, neither side sends packets with ECT(0).
func TestNoECN(t *testing.T) {
	for _, off := range []bool{false, true} {
		r := &rig{addr: netlabtest.Loopback(), port: netlabtest.FreePort(t)}
		var sent markable
		for i, a := range []**Adapter{&r.a, &r.b} {
			*a = openAdapter(t, AdapterConfig{Address: r.addr[i], UDPPort: r.port, Datapath: "udp", NoECN: off && i == 0})
			for _, s := range (*a).verbs.Shards {
				s.Do(func(e *provider.Engine) { e.SetTap(&sent) })
			}
		}
		client, server := r.connected(t)
		want(t, "write", client.qp.Write(1, []SGE{client.mr.SGE(0, 64)}, server.mr.Address(), server.mr.RemoteToken(), 0), StatusSuccess)
		client.wantResult(t, 1, OperationWrite, StatusSuccess)
		if n := sent.Load(); n > 0 == off {
			t.Errorf("off: %v, %d packets can be marked", off, n)
		}
	}
}
