package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// server accepts sessions on one adapter, one at a time.
type server struct {
	cfg      NDConfig
	adapter  *nd.Adapter
	listener *nd.Listener
	rec      *recording
	crowded  bool // other servers use the same adapter
}

// backlog is the number of connection requests that may wait: requests of a session and a few unknown ones.
const backlog = 8

func listen(cfg NDConfig) (*server, error) {
	a, err := openAdapter(cfg)
	if err != nil {
		return nil, err
	}
	rec, err := record(a, cfg.PCAP, cfg.Snap)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	l, err := a.CreateListener()
	if err == nil {
		if err = cfg.TLS.listener(l); err == nil {
			err = l.Bind(cfg.Local)
		}
		if err == nil {
			err = l.Listen(backlog)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", cfg.Local, err), a.Close(), rec.stop(func(Captured) {}))
	}
	return &server{cfg: cfg, adapter: a, listener: l, rec: rec}, nil
}

// close ends the server and passes the result of its capture to tell.
func (v *server) close(tell func(Captured)) {
	_ = v.listener.Close() // the adapter closes it, too
	_ = v.adapter.Close()
	_ = v.rec.stop(tell) // the result shows whether the file could be written
}

// serveOne waits for a session and serves it.
func (v *server) serveOne(ctx context.Context, log func(string)) error {
	s, err := newStation(v.adapter, TLS{})
	if err != nil {
		return err
	}
	defer s.close()
	s.crowded = v.crowded
	peer, err := v.accept(ctx, s.control.link, hello)
	if err != nil {
		return err
	}
	log(fmt.Sprintf("session with %s", peer))
	for {
		m, err := s.control.recv(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("session with %s: %w", peer, err)
		case m.Bye:
			return nil
		case m.Setup == nil && m.Plan == nil:
			return fmt.Errorf("session with %s: a control message is neither setup, plan nor bye", peer)
		}
		what := "several connections"
		if m.Setup != nil {
			what = m.Setup.Spec.String()
			err = v.serveSpec(ctx, s, *m.Setup)
		} else {
			err = v.serveSeverally(ctx, s, peer.Addr(), *m.Plan)
		}
		if err != nil {
			// Tell the peer the reason, if possible.
			_ = s.control.send(ctx, controlMessage{Error: err.Error()})
			return fmt.Errorf("session with %s: %s: %w", peer, what, err)
		}
		if m.Plan != nil {
			return nil
		}
	}
}

// accept accepts the connection request with the given private data, and refuses all others.
func (v *server) accept(ctx context.Context, l *link, private string) (netip.AddrPort, error) {
	for {
		if err := v.listener.GetConnectionRequest(ctx, l.connector); err != nil {
			return netip.AddrPort{}, err
		}
		got, err := l.connector.PrivateData()
		if err != nil {
			return netip.AddrPort{}, err
		}
		peer, err := l.connector.PeerAddress()
		if err != nil {
			return netip.AddrPort{}, err
		}
		if string(got) == private {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			return peer, l.connector.Accept(ctx, l.qp, params(private))
		}
		reason := "this is an ndperf server: it expects " + private
		if err := l.connector.Reject([]byte(reason)); err != nil {
			return peer, fmt.Errorf("refuse %s: %w", peer, err)
		}
		// A connector serves only one request.
		_ = l.connector.Close()
		if l.connector, err = v.adapter.CreateConnector(); err != nil {
			return peer, err
		}
	}
}

// serveSpec runs the responder's side of one measurement.
func (v *server) serveSpec(ctx context.Context, s *station, setup setupMessage) error {
	spec := setup.Spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, spec.budget())
	defer cancel()
	d, err := s.newData(spec, Responder)
	if err != nil {
		return err
	}
	defer d.close()
	d.remote = setup.Region
	d.fill(answerSeed)
	if spec.Test.usesSend() {
		if err := d.postReceives(); err != nil {
			return err
		}
	}
	ready := d.mem.remote()
	if err := s.control.send(ctx, controlMessage{Ready: &ready}); err != nil {
		return err
	}
	acceptCtx, stop := context.WithTimeout(ctx, connectTimeout)
	defer stop()
	if _, err := v.accept(acceptCtx, d.link, setup.ID); err != nil {
		return fmt.Errorf("accept the data connection: %w", err)
	}
	if err := s.control.send(ctx, controlMessage{Start: true}); err != nil {
		return err
	}
	d.meter = startMeter(s.adapter)
	d.meter.warm = d.meter.began.Add(spec.warmUp() * 3 / 4) // counting stops this process, which must not happen while the requester measures
	s.event = spec.Event
	switch {
	case spec.answered():
		err = d.answer(ctx)
	default:
		err = d.watch(ctx)
	}
	s.event = false
	if err != nil {
		return err
	}
	return d.report(ctx)
}

// watch runs the transport, and checks operations that are in place, until a control message arrives.
func (d *data) watch(ctx context.Context) error {
	for !d.control.pending() {
		d.warmUp()
		if err := d.checkPlaced(); err != nil {
			return err
		}
		if err := d.takeAll(ctx); err != nil {
			return err
		}
		if d.spec.Test == SendBW {
			d.flow.placed = d.received
		}
	}
	return nil
}

// warmUp checks whether the warm-up is over.
func (d *data) warmUp() {
	if !d.meter.warm.IsZero() {
		d.meter.leaveWarmUp(time.Now())
	}
}

// report sends this side's results after the requester's done.
func (d *data) report(ctx context.Context) error {
	r := resultMessage{Elapsed: time.Since(d.meter.began)}
	d.live = 0
	r.CPU, r.Mallocs, r.Resent = d.meter.cpuSince(), d.meter.mallocsSince(), d.meter.resent()
	m, err := d.control.recv(ctx)
	if err != nil {
		return err
	}
	if m.Done == nil {
		return errors.New("a control message is not the expected message done")
	}
	if err := d.verify(m.Done.Ops); err != nil {
		r.Error = err.Error()
	}
	return d.control.send(ctx, controlMessage{Result: &r})
}

// verify checks every byte of the newest operations. Earlier ones were checked on arrival (checkPlaced).
func (d *data) verify(ops uint64) error {
	s := d.spec
	if s.answered() {
		if d.heard != ops {
			return fmt.Errorf("%d messages were sent, %d arrived", ops, d.heard)
		}
		return nil
	}
	if s.Test == SendBW && d.received != ops {
		return fmt.Errorf("%d messages were sent, %d arrived", ops, d.received)
	}
	if !s.Verify {
		return nil
	}
	if s.reads() {
		ops = 0 // Reads change nothing here, so everything must still be poison
	}
	if d.checks.k+uint64(s.slots()) < ops {
		return fmt.Errorf("operations %d to %d were overwritten before they were checked", d.checks.k, ops-uint64(s.slots())-1)
	}
	return verifySlots(d.incoming(), s.Size, s.slots(), requestSeed, ops, d.mark)
}
