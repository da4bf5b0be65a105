package ndk

import (
	"testing"

	"github.com/ndxdp/ndxdp/nd"
)

// An adapter that says so reaches its own address; one on an AF_XDP socket says nothing, and refuses.
func TestConnectsToItself(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.b = r.a
	if info, _ := r.a.QueryInfo(); info.Flags&AdapterLoopbackConnections == 0 {
		t.Errorf("flags %#x: it does not say that it reaches itself", uint32(info.Flags))
	}
	client, server := r.connected(t)
	moveEverything(t, client, server)
	parted(t, client, server)
}

func TestAFXDPRefusesItself(t *testing.T) {
	t.Parallel()
	_, a, _ := overVeth(t, nd.DatapathUDP, "generic")
	if info, _ := a.QueryInfo(); info.Flags&AdapterLoopbackConnections != 0 {
		t.Errorf("flags %#x: it says that it reaches itself", uint32(info.Flags))
	}
	e := newEnd(t, a, 64)
	_, at, _ := listens(t, a)
	want(t, "connect", e.dial(t, at).finish(t), StatusNetworkUnreachable)
}
