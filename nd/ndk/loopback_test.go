package ndk

import "testing"

// An adapter connects to its own address, with plain sockets and AF_XDP, and reports it.
func TestConnectsToItself(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *rig{"plain sockets": newRig, "AF_XDP": newVethRig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			r.b, r.addr[1] = r.a, r.addr[0]
			if info, _ := r.a.QueryInfo(); info.Flags&AdapterLoopbackConnections == 0 {
				t.Errorf("flags %#x: it does not say that it reaches itself", uint32(info.Flags))
			}
			client, server := r.connected(t)
			moveEverything(t, client, server)
			parted(t, client, server)
		})
	}
}
