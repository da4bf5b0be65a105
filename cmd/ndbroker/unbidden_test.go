package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

const (
	// unbidden, in place of a socket, makes a client look for a broker at the default path.
	unbidden = "-"
	// overUDP is the suffix of the role string of a client that asks for plain sockets.
	overUDP = "-udp"
)

// startUnbidden starts a client that knows no broker, and finds the broker of a socket at the default path: the client has a /run of its
// own.
func startUnbidden(t *testing.T, ns *netlab.Namespace, role, socket, local, remote string) *process {
	t.Helper()
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-ec", `mount -t tmpfs -o mode=755 none /run
mkdir $1
mount --bind $0 $1
exec setpriv --reuid=65534 --regid=65534 --clear-groups /proc/self/fd/3`, filepath.Dir(socket), broker.Directory)
	cmd.ExtraFiles = []*os.File{program}
	return start(t, ns, cmd, fmt.Sprintf("%s %s %s %s", role, unbidden, local, remote))
}

// withSockets plays a role with plain sockets.
func withSockets(ctx context.Context, role string, local netip.Addr, to netip.AddrPort) error {
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: local, Datapath: nd.DatapathUDP})
	if err != nil {
		return err
	}
	return errors.Join(play(ctx, role, a, "", to, false), a.Close())
}

// TestUnbidden: processes without privileges find their brokers by themselves. One is the first of an address. Another comes after a
// process with plain sockets, which has the well-known port and hands requests over.
func TestUnbidden(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a, b := pair.AddrA.Addr().String(), pair.AddrB.Addr().String()
	socketA, _ := startBroker(t, pair.A, pair.NameA, nobody)
	socketB, _ := startBroker(t, pair.B, pair.NameB, nobody)
	for _, later := range []bool{false, true} {
		if later {
			first := startClient(t, pair.A, "hold"+overUDP, unbidden, a, b)
			first.awaitReady(t)
		}
		server := startUnbidden(t, pair.A, "serve", socketA, a, b)
		server.awaitReady(t)
		startUnbidden(t, pair.B, "write", socketB, b, a).wantSuccess(t, "writer")
		server.wantSuccess(t, "server")
	}
}

// TestRequestsAreHandedToALease: a request that another process of the address received does not say how to reach its sender. A sender on
// plain sockets accepts only packets for its link-layer address.
func TestRequestsAreHandedToALease(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{StaticNeighbours: true})
	a, b := pair.AddrA.Addr().String(), pair.AddrB.Addr().String()
	socket, _ := startBroker(t, pair.A, pair.NameA, nobody)
	first := startClient(t, pair.A, "hold"+overUDP, unbidden, a, b)
	first.awaitReady(t)
	server := startUnbidden(t, pair.A, "serve", socket, a, b)
	server.awaitReady(t)
	startClient(t, pair.B, "write"+overUDP, unbidden, b, a).wantSuccess(t, "writer")
	server.wantSuccess(t, "server")
}
