package nd

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// peerProgram is the program of startPeer.
const peerProgram = "./testdata/peer"

// peerProcess is that program. It is the other side of a connection over a veth pair.
type peerProcess struct {
	*netlabtest.Process
	*end    // our side
	adapter *Adapter
	granted []byte // address and token of the peer's memory, a MiB
}

// startPeer starts the program, and connects.
func startPeer(t *testing.T, program string, datapath Datapath, mtu int) *peerProcess {
	t.Helper()
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: mtu})
	a := openIn(t, pair.B, AdapterConfig{Address: pair.AddrB.Addr(), Datapath: datapath})
	return joinPeer(t, a, pair.A, program, pair.AddrA.Addr(), datapath)
}

// joinPeer starts the program with an address in a namespace. The program connects to an adapter.
func joinPeer(t *testing.T, a *Adapter, ns *netlab.Namespace, program string, addr netip.Addr, datapath Datapath) *peerProcess {
	t.Helper()
	p := &peerProcess{adapter: a}
	l, at := listen(t, p.adapter, 1)
	p.Process = netlabtest.Start(t, ns, program, addr.String(), at.String(), datapath.String())
	p.end = newEnd(t, p.adapter, 1<<20)
	must(t, l.GetConnectionRequest(t.Context(), p.ctr))
	var err error
	p.granted, err = p.ctr.PrivateData()
	must(t, err)
	grant := binary.BigEndian.AppendUint64(nil, p.mr.Address())
	must(t, p.ctr.Accept(t.Context(), p.qp, ConnectParams{PrivateData: binary.BigEndian.AppendUint32(grant, uint32(p.mr.RemoteToken()))}))
	return p
}
