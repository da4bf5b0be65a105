package main

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndhealth"
)

// chunk is the size of one Write of the self test, and of the Read that fetches it back.
const chunk = 256 << 10

// ndPort is free on addresses used only by the self test.
const ndPort = 7000

// trial is the result of a self test.
type trial struct {
	Works    bool    `json:"works"`
	Said     string  `json:"said"` // what was done, or what failed
	Datapath string  `json:"datapath,omitempty"`
	Bytes    uint64  `json:"bytes"` // bytes written, read back and compared
	Seconds  float64 `json:"seconds"`
}

// selfTest opens the examined adapter, and then transfers bytes between two other adapters: over a temporary veth pair, or over
// loopback if veth pairs are not permitted.
func selfTest(ctx context.Context, r *ndhealth.Report, f *doctorFlags) *trial {
	t, err := tryOut(ctx, r, f)
	if err != nil {
		t.Said = err.Error()
		return t
	}
	t.Works = true
	return t
}

func tryOut(ctx context.Context, r *ndhealth.Report, f *doctorFlags) (*trial, error) {
	t := &trial{}
	addr, err := netip.ParseAddr(r.Address)
	if err != nil {
		return t, fmt.Errorf("interface %s: %w", r.Interface, err)
	}
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: addr, UDPPort: f.udpPort, Datapath: f.datapath})
	if err != nil {
		return t, err
	}
	opened := a.Datapath()
	if err := a.Close(); err != nil {
		return t, err
	}
	where := "over a veth pair in two namespaces"
	lab := vethPair
	if os.Geteuid() != 0 {
		where, lab = "over loopback, because only root may make a veth pair", loopback
	}
	err = lab(f.datapath, func(near, far *nd.Adapter) error {
		t.Datapath = near.Datapath().Datapath.String()
		start := time.Now()
		err := between(ctx, near, far, start.Add(f.duration), &t.Bytes)
		t.Seconds = time.Since(start).Seconds()
		return err
	})
	if err != nil {
		return t, fmt.Errorf("%s: %w", where, err)
	}
	t.Said = fmt.Sprintf("%s opened with datapath %s; %d MiB written, read back and compared in %.1f s (%.2f Gb/s each way) %s, datapath %s",
		r.Interface, opened.Datapath, t.Bytes>>20, t.Seconds, float64(t.Bytes)*8e-9/t.Seconds, where, t.Datapath)
	return t, nil
}

// vethPair calls do with adapters on a temporary veth pair.
func vethPair(dp nd.Datapath, do func(near, far *nd.Adapter) error) (err error) {
	pair, err := netlab.NewPair(netlab.PairConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.Close()) }()
	open := func(ns *netlab.Namespace, at netip.Prefix) (a *nd.Adapter, err error) {
		err = ns.Do(func() (err error) {
			a, err = nd.OpenAdapter(nd.AdapterConfig{Address: at.Addr(), Datapath: dp})
			return err
		})
		return a, err
	}
	near, err := open(pair.A, pair.AddrA)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, near.Close()) }()
	far, err := open(pair.B, pair.AddrB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.Close()) }()
	return do(near, far)
}

// loopback calls do with adapters on two loopback addresses and a free UDP port.
func loopback(_ nd.Datapath, do func(near, far *nd.Adapter) error) (err error) {
	s, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	port := s.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	s.Close()
	open := func(at string) (*nd.Adapter, error) {
		return nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(at), UDPPort: port, Datapath: nd.DatapathUDP})
	}
	near, err := open("127.0.0.1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, near.Close()) }()
	far, err := open("127.0.0.2")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.Close()) }()
	return do(near, far)
}

// between connects two adapters and transfers bytes until the deadline.
func between(ctx context.Context, near, far *nd.Adapter, until time.Time, moved *uint64) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at := netip.AddrPortFrom(far.QueryAddressList()[0], ndPort)
	l, err := nd.Listen(at, nd.EndpointConfig{
		Adapter: far, MemoryBytes: chunk, Rights: nd.MRAllowRemoteRead | nd.MRAllowRemoteWrite,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	served := make(chan error, 1)
	go func() {
		e, err := l.Accept(ctx)
		if err == nil {
			err = errors.Join(e.Connector.NotifyDisconnect(ctx), e.Close())
		}
		served <- err
	}()
	e, err := nd.Dial(ctx, at, nd.EndpointConfig{Adapter: near, MemoryBytes: 2 * chunk})
	if err != nil {
		cancel()
		return errors.Join(err, <-served)
	}
	err = move(ctx, e, until, moved)
	err = errors.Join(err, e.Close())
	if failed := <-served; err == nil && failed != nil && !errors.Is(failed, nd.ErrConnectionAborted) {
		err = failed
	}
	return err
}

// move writes random bytes into the peer's memory, reads them back and compares them. It repeats this until the deadline.
func move(ctx context.Context, e *nd.Endpoint, until time.Time, moved *uint64) error {
	sent, back := e.Memory.Bytes()[:chunk], e.Memory.Bytes()[chunk:][:chunk]
	for *moved == 0 || time.Now().Before(until) {
		_, _ = crand.Read(sent) // never fails (crypto/rand)
		err := e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, chunk)}, e.Peer.Address, e.Peer.Token, nd.OpSilentSuccess|nd.OpDefer)
		if err == nil {
			err = e.QueuePair.Read(2, []nd.SGE{e.Memory.SGE(chunk, chunk)}, e.Peer.Address, e.Peer.Token, 0)
		}
		if err == nil {
			_, err = e.Result(ctx)
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(sent, back) {
			return fmt.Errorf("the %d bytes read back after %d differ from the bytes that were written", chunk, *moved)
		}
		*moved += chunk
	}
	return nil
}
