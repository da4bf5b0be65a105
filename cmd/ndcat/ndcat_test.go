package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

var must = testhelp.Must

// place is the network of a transfer.
type place struct {
	at            string
	near, far     func(func() error) error // run the sender and the listener in their namespaces
	nearOn, farOn []string                 // their flags
}

func onLoopback(t *testing.T) place {
	here := func(f func() error) error { return f() }
	on := []string{"--udp-port", fmt.Sprint(netlabtest.FreePort(t)), "--datapath", "udp"}
	addr := netlabtest.Loopback()
	return place{at: netip.AddrPortFrom(addr[1], 7000).String(), near: here, far: here, nearOn: append([]string{"--from", addr[0].String()}, on...), farOn: on}
}

func onVeth(t *testing.T) place {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 9000})
	return place{at: netip.AddrPortFrom(pair.AddrB.Addr(), 7000).String(), near: pair.A.Do, far: pair.B.Do}
}

// announcement is closed after the first write.
type announcement struct{ made chan struct{} }

func (a announcement) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte("waiting at")) {
		close(a.made)
	}
	return len(b), nil
}

// listen starts a listener that writes to out, and returns when the listener waits for a sender.
func (p *place) listen(t *testing.T, ctx context.Context, out io.Writer) <-chan error {
	t.Helper()
	ended, said := make(chan error, 1), announcement{make(chan struct{})}
	root := newRoot()
	root.SetArgs(append([]string{"-l", p.at}, p.farOn...))
	root.SetOut(out)
	root.SetErr(said)
	go func() { ended <- p.far(func() error { return root.ExecuteContext(ctx) }) }()
	select {
	case <-said.made:
	case err := <-ended:
		t.Fatal("the listener ended: ", err)
	}
	return ended
}

func (p *place) send(ctx context.Context, in io.Reader, args ...string) error {
	root := newRoot()
	root.SetArgs(append(append([]string{p.at}, p.nearOn...), args...))
	root.SetIn(in)
	root.SetErr(io.Discard)
	return p.near(func() error { return root.ExecuteContext(ctx) })
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func content(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b) // never fails
	return b
}

func TestTransfers(t *testing.T) {
	for where, place := range map[string]func(*testing.T) place{"loopback": onLoopback, "veth": onVeth} {
		for how, flags := range map[string][]string{"write": nil, "send": {"--send"}} {
			for _, n := range []int{0, 1, chunk, 3*slots*chunk + 17} { // the last size uses all slots three times
				t.Run(where+" "+how+" "+strconv.Itoa(n), func(t *testing.T) {
					p, ctx := place(t), patient(t)
					var got bytes.Buffer
					ended := p.listen(t, ctx, &got)
					want := content(n)
					must(t, p.send(ctx, bytes.NewReader(want), flags...))
					must(t, <-ended)
					if !bytes.Equal(got.Bytes(), want) {
						t.Errorf("%d bytes arrived, not the %d that were sent", got.Len(), n)
					}
				})
			}
		}
	}
}

func TestTransferOfAFile(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	path := filepath.Join(t.TempDir(), "file")
	want := content(2*chunk + 5)
	must(t, os.WriteFile(path, want, 0o600))
	var got bytes.Buffer
	ended := p.listen(t, ctx, &got)
	must(t, p.send(ctx, nil, path))
	must(t, <-ended)
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes arrived", got.Len())
	}
}

// A peer that is no ndcat comes first.
func TestTransferAfterAStranger(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	port, err := strconv.Atoi(p.farOn[1])
	must(t, err)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: uint16(port), Datapath: nd.DatapathUDP})
	must(t, err)
	defer a.Close()
	cq, err := a.CreateCompletionQueue(4)
	must(t, err)
	qp, err := a.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 1, InitiatorDepth: 1})
	must(t, err)
	c, err := a.CreateConnector()
	must(t, err)
	var got bytes.Buffer
	ended := p.listen(t, ctx, &got)
	if err := c.Connect(ctx, qp, netip.MustParseAddrPort(p.at), nd.ConnectParams{}); !errors.Is(err, nd.ErrConnectionRefused) {
		t.Errorf("connect without an introduction: %v", err)
	}
	must(t, p.send(ctx, strings.NewReader("hello")))
	must(t, <-ended)
	if got.String() != "hello" {
		t.Errorf("%q arrived", got.String())
	}
}

// full is a standard output on a full disk.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestBothFailWhenOutputDoes(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	ended := p.listen(t, ctx, full{})
	if err := p.send(ctx, bytes.NewReader(content(4*slots*chunk))); err == nil || !strings.Contains(err.Error(), "could not write the received bytes: "+errFull.Error()) {
		t.Errorf("the sender ended with %v", err)
	}
	if err := <-ended; !errors.Is(err, errFull) {
		t.Errorf("the listener ended with %v", err)
	}
}

// If the sender's hash is of other bytes, both sides must report it.
func TestWrongHashIsFound(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	ended := p.listen(t, ctx, io.Discard)
	port, err := strconv.ParseUint(p.farOn[1], 10, 16)
	must(t, err)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: uint16(port), Datapath: nd.DatapathUDP})
	must(t, err)
	defer a.Close()
	e, err := nd.Dial(ctx, netip.MustParseAddrPort(p.at), nd.EndpointConfig{Adapter: a, MemoryBytes: acks + slots*ackLen})
	must(t, err)
	defer e.Close()
	s := &sender{e: e, sum: sha256.New()}
	for slot := range slots {
		must(t, s.awaitAck(slot))
	}
	buf, err := s.slot(ctx)
	must(t, err)
	copy(buf, "these bytes")
	must(t, s.post(kindData, 11))
	s.total = 11
	s.sum.Write([]byte("other bytes"))
	if err := s.end(ctx); err == nil || !strings.Contains(err.Error(), "not what was sent") {
		t.Errorf("the sender ended with %v", err)
	}
	must(t, e.Close())
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "is not the sender's") {
		t.Errorf("the listener ended with %v", err)
	}
}

func TestSenderVanishes(t *testing.T) {
	p, ctx := onLoopback(t), patient(t)
	ended := p.listen(t, ctx, io.Discard)
	read, write := io.Pipe()
	sending, vanish := context.WithCancel(ctx)
	sent := make(chan error, 1)
	go func() { sent <- p.send(sending, read) }()
	_, err := write.Write(content(2 * chunk))
	must(t, err)
	vanish()
	must(t, write.CloseWithError(context.Canceled))
	if err := <-sent; err == nil {
		t.Error("the sender succeeded")
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "bytes:") {
		t.Errorf("the listener ended with %v", err)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"there"}, {"-l", "127.0.0.2:7000", "file"}, {"127.0.0.2:7000", "/no/such/file"}, {"--from", "x", "127.0.0.2:7000"}} {
		root := newRoot()
		root.SetArgs(args)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// TestListenerRefusesWhatItWouldIgnore: a listener refuses flags of the sender, because they have no effect.
func TestListenerRefusesWhatItWouldIgnore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a run that accepts its arguments must not wait for a sender
	for _, args := range [][]string{{"--from", "127.0.0.1"}, {"--send"}} {
		root := newRoot()
		root.SetArgs(append([]string{"-l", "127.0.0.2:7000", "--datapath", "udp", "--udp-port", fmt.Sprint(netlabtest.FreePort(t))}, args...))
		root.SetOut(io.Discard)
		var said bytes.Buffer
		if status := cli.Run(ctx, root, &said); status != cli.Misuse || !strings.Contains(said.String(), "leave") {
			t.Errorf("%q: status %d, %s", args, status, &said)
		}
	}
}
