package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
)

// If this variable is in its environment, the test binary runs as a client without privileges. The value has role, socket of the broker,
// local and remote address.
const clientEnv = "NDBROKER_TEST_CLIENT"

// patience bounds every wait of a test for something that should happen soon.
const patience = time.Minute

func TestMain(m *testing.M) {
	if args, is := strings.CutPrefix(os.Getenv(clientEnv), brokerRole); is {
		cmd := newRoot()
		cmd.SetArgs(strings.Fields(args))
		cli.Main(cmd)
	}
	if spec := os.Getenv(clientEnv); spec != "" {
		if err := client(strings.Fields(spec)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const payload = 3 << 20 // many packets, some of which do not fit into a ring

const (
	// byRing is the suffix of the role string of a client that is to get a ring.
	byRing = "-ring"
	// asksGeneric is the suffix for a client that asks for AF_XDP in generic mode, and nothing else.
	asksGeneric = "-generic"
)

// withLane is the suffix of the role string of a client whose adapter has a bulk path.
const withLane = "-lane"

// pattern fills b with the bytes to write. Different offsets have different bytes, so that misplaced data are detected.
func pattern(b []byte) {
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}

func client(spec []string) error {
	if spec[0] == keeper {
		return unix.Pause()
	}
	role, socket := spec[0], spec[1]
	local, remote := netip.MustParseAddr(spec[2]), netip.MustParseAddr(spec[3])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := powerless(); err != nil {
		return err
	}
	switch role {
	case "ndk":
		return throughNDK(ctx, socket, local, remote)
	case "hand-on":
		return handOn(socket, local)
	case "give":
		return give(socket, local)
	}
	port := uint64(7000)
	if len(spec) > 4 {
		var err error
		if port, err = strconv.ParseUint(spec[4], 10, 16); err != nil {
			return err
		}
	}
	role, plain := strings.CutSuffix(role, overUDP)
	if plain {
		return withSockets(ctx, role, local, netip.AddrPortFrom(remote, uint16(port)))
	}
	role, ring := strings.CutSuffix(role, byRing)
	role, bulk := strings.CutSuffix(role, withLane)
	role, generic := strings.CutSuffix(role, asksGeneric)
	a, err := openAs(local, socket, generic, ring, bulk)
	if err != nil {
		return err
	}
	err = play(ctx, role, a, socket, netip.AddrPortFrom(remote, uint16(port)), bulk)
	if s := a.Stats(); ring && role != "hold" && s.Sockets.InRing == 0 {
		err = errors.Join(err, fmt.Errorf("nothing came by the ring: %+v", s))
	}
	return errors.Join(err, a.Close())
}

// openAs opens an adapter, and returns an error if the broker's lease is not of the expected kind.
func openAs(local netip.Addr, socket string, generic, ring, bulk bool) (*nd.Adapter, error) {
	cfg := nd.AdapterConfig{Address: local, Broker: socket, Datapath: nd.DatapathAuto, Bulk: nd.BulkOff}
	if socket == unbidden {
		cfg.Broker = ""
	}
	if generic {
		cfg.Datapath = nd.DatapathGeneric
	}
	if bulk {
		cfg.Bulk = nd.BulkOnly
	}
	want := nd.DatapathGeneric
	if ring {
		want = nd.DatapathRing
	}
	a, err := nd.OpenAdapter(cfg)
	if err != nil {
		return nil, err
	}
	if i := a.Datapath(); i.Datapath != want || !strings.Contains(i.Reason, "broker") {
		return nil, errors.Join(fmt.Errorf("datapath: %+v", i), a.Close())
	}
	return a, nil
}

// play does what a client of this role does with its adapter. to is the server's address, or for a server its port.
func play(ctx context.Context, role string, a *nd.Adapter, socket string, to netip.AddrPort, bulk bool) (err error) {
	cfg := nd.EndpointConfig{Adapter: a, MemoryBytes: payload, Rights: nd.MRAllowRemoteRead | nd.MRAllowRemoteWrite}
	switch role {
	case "serve":
		return serve(ctx, netip.AddrPortFrom(a.QueryAddressList()[0], to.Port()), cfg)
	case "write":
		writes := 1
		if bulk {
			writes = 8 // enough to prove that the adapter works, and to use it afterwards
		}
		err = write(ctx, to, cfg, writes)
		if s := a.Stats(); bulk && (s.Bulk.Proven == 0 || s.Bulk.PacketsOut == s.Bulk.Probes) {
			err = errors.Join(err, fmt.Errorf("nothing went by the bulk lane (%q): %+v", a.Datapath().NoBulk, s))
		}
		return err
	case "orphan":
		return orphan(ctx, a, to, cfg)
	case "refused":
		if _, err := nd.Dial(ctx, to, cfg); !errors.Is(err, nd.ErrConnectionRefused) {
			return fmt.Errorf("a connection to a port that nobody has: %w", err)
		}
		return nil
	case "notice":
		return notice(ctx, a, to, cfg)
	case "hold":
		fmt.Println("ready")
		<-ctx.Done() // killed long before
		return ctx.Err()
	case "outlive":
		fmt.Println("ready")
		return outlive(ctx, a, socket)
	}
	return fmt.Errorf("a client has no role %q", role)
}

// powerless returns an error if this process has any capability, or is root.
func powerless() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	if !strings.Contains(string(status), "CapEff:\t0000000000000000\n") || os.Geteuid() != nobody {
		return fmt.Errorf("this process may too much:\n%s", status)
	}
	return nil
}

func serve(ctx context.Context, at netip.AddrPort, cfg nd.EndpointConfig) error {
	l, err := nd.Listen(at, cfg)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("ready")
	e, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if err := e.QueuePair.Receive(1, nil); err != nil {
		return err
	}
	if _, err := e.Result(ctx); err != nil { // all was written
		return err
	}
	want := make([]byte, payload)
	pattern(want)
	if !bytes.Equal(e.Memory.Bytes(), want) {
		return errors.New("other bytes arrived than were written")
	}
	if err := e.QueuePair.Send(2, nil, 0); err != nil {
		return err
	}
	if _, err := e.Result(ctx); err != nil {
		return err
	}
	return e.Connector.NotifyDisconnect(ctx)
}

func write(ctx context.Context, to netip.AddrPort, cfg nd.EndpointConfig, times int) error {
	e, err := nd.Dial(ctx, to, cfg)
	if err != nil {
		return err
	}
	pattern(e.Memory.Bytes())
	err = e.QueuePair.Receive(1, nil)
	for range times {
		err = errors.Join(err, e.QueuePair.Write(2, []nd.SGE{e.Memory.SGE(0, payload)}, e.Peer.Address, e.Peer.Token, nd.OpSilentSuccess|nd.OpDefer))
	}
	err = errors.Join(err, e.QueuePair.Send(3, nil, nd.OpSilentSuccess))
	if err != nil {
		return err
	}
	if _, err := e.Result(ctx); err != nil { // the server received the expected bytes
		return err
	}
	clear(e.Memory.Bytes())
	if err := e.QueuePair.Read(4, []nd.SGE{e.Memory.SGE(0, payload)}, e.Peer.Address, e.Peer.Token, 0); err != nil {
		return err
	}
	if _, err := e.Result(ctx); err != nil {
		return err
	}
	want := make([]byte, payload)
	pattern(want)
	if !bytes.Equal(e.Memory.Bytes(), want) {
		return errors.New("other bytes came back than were written")
	}
	return e.Disconnect(ctx)
}

// outlive waits until the broker has ended, which removes the adapter, and requests another adapter.
func outlive(ctx context.Context, a *nd.Adapter, socket string) error {
	for {
		_, err := a.Query()
		if errors.Is(err, nd.ErrDeviceRemoved) {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the adapter was still open when its broker had ended (%v)", err)
		case <-time.After(time.Millisecond):
		}
	}
	for { // the broker closes its socket and its clients in any order, so a request may still arrive and stay without an answer
		_, err := nd.OpenAdapter(nd.AdapterConfig{Address: a.QueryAddressList()[0], Broker: socket})
		switch {
		case !errors.Is(err, nd.ErrDeviceNotReady) || ctx.Err() != nil:
			return fmt.Errorf("opened without a broker: %v", err)
		case strings.Contains(err.Error(), "is ndbroker running"):
			return nil
		}
	}
}
