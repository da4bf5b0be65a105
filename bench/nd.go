package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// NDConfig configures the tests over package nd.
type NDConfig struct {
	Local    netip.AddrPort // the requester may leave out the port, or all of it
	Peer     netip.AddrPort // the requester's destination
	UDPPort  uint16         // zero means the default
	Datapath string         // auto, generic, native, udp, ring or tcx
	Broker   string         // socket of a broker that opens AF_XDP; empty for none
	Bulk     string         // auto, off or only
	PCAP     string         // file for the packets of this side; empty for none
	Snap     int            // bytes captured of each packet; 0 for all
	Interval time.Duration  // duration of each Interval of a test; 0 for none
	Parallel Parallel       // of Run
	Reverse  bool           // of Run: the responder measures; not with Parallel.Both
	TLS      TLS            // encrypts the connections
}

// runND runs the job's specs over package nd. After the first step, all coordination goes over nd itself.
func (j Job) runND(ctx context.Context, c Coordinator, sink Sink) error {
	cfg := NDConfig{Local: j.Local.Addr, Peer: j.Peer.Addr, UDPPort: j.UDPPort, Datapath: j.Datapath, Bulk: j.Bulk, PCAP: j.PCAP, Snap: j.Snap, Interval: j.Interval}
	var err error
	if cfg.TLS, err = j.TLS.TLS(); err != nil {
		return err
	}
	if j.Role == Requester {
		if err := c.Meet(ctx, "nd listening"); err != nil {
			return err
		}
		cfg.Local = netip.AddrPortFrom(cfg.Local.Addr(), 0)
		if err := Run(ctx, cfg, j.Specs, sink); err != nil {
			return err // at once, because the responder fails as a consequence, and its error must not come first
		}
		return c.Meet(ctx, "nd done")
	}
	s, err := listen(cfg)
	if err != nil {
		return err
	}
	defer s.close(sink.Captured)
	if err := c.Meet(ctx, "nd listening"); err != nil {
		return err
	}
	if err := s.serveOne(ctx, func(string) {}); err != nil {
		return err
	}
	return c.Meet(ctx, "nd done")
}

// Run connects to a responder and runs the specs in order.
func Run(ctx context.Context, cfg NDConfig, specs []Spec, sink Sink) (err error) {
	if !cfg.Local.IsValid() {
		if cfg.Local, err = routeTo(cfg.Peer); err != nil {
			return err
		}
	}
	a, err := openAdapter(cfg)
	if err != nil {
		return err
	}
	rec, err := record(a, cfg.PCAP, cfg.Snap)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	defer func() { err = errors.Join(err, a.Close(), rec.stop(sink.Captured)) }()
	q, err := dialSession(ctx, a, cfg)
	if err != nil {
		return fmt.Errorf("connect to %s: %w%s", cfg.Peer, err, connectRemedy(err))
	}
	defer q.close()
	if cfg.Parallel.Several() || cfg.Parallel.Streams > 0 || cfg.Reverse {
		return q.severally(ctx, specs, sink)
	}
	tell := tellOf(a, cfg.Interval, "", sink, q.station)
	for _, s := range specs {
		s = s.WithDefaults()
		sink.Started(s)
		var r *Result
		tell.during(s, func() { r, err = q.run(ctx, s) })
		if err != nil {
			return fmt.Errorf("nd %s: %w", s, err)
		}
		sink.Result(*r)
	}
	return q.bye(ctx)
}

// connectRemedy returns advice for a failed connect, as the end of a sentence.
func connectRemedy(err error) string {
	if errors.Is(err, nd.ErrIOTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return ": is ndperf server running there, and does every firewall between pass the ND UDP port in both directions?"
	}
	return ""
}

// Serve listens and serves one requester after another until ctx or the adapter ends. It calls listening once, and log for each
// session at its end.
func Serve(ctx context.Context, cfg NDConfig, listening func(netip.AddrPort, nd.DatapathInfo), log func(string)) error {
	s, err := listen(cfg)
	if err != nil {
		return err
	}
	defer s.close(func(c Captured) { log(c.String()) })
	listening(cfg.Local, s.adapter.Datapath())
	for ctx.Err() == nil {
		// A failed requester must not end the server.
		switch err := s.serveOne(ctx, log); {
		case ctx.Err() != nil || err == nil:
		case errors.Is(err, nd.ErrDeviceRemoved):
			return fmt.Errorf("%w: when what ended the adapter is mended, start the server again", err)
		default:
			log("session ended: " + err.Error())
		}
	}
	return context.Cause(ctx)
}

// arenaBytes holds the memory of the default scenarios, so that it is sent without a copy.
const arenaBytes = 64 << 20

func openAdapter(cfg NDConfig) (*nd.Adapter, error) {
	mode := nd.DatapathAuto
	if cfg.Datapath != "" {
		var err error
		if mode, err = nd.ParseDatapath(cfg.Datapath); err != nil {
			return nil, err
		}
	}
	bulk := nd.BulkAuto
	if cfg.Bulk != "" {
		var err error
		if bulk, err = nd.ParseBulkLane(cfg.Bulk); err != nil {
			return nil, err
		}
	}
	return nd.OpenAdapter(nd.AdapterConfig{
		Address: cfg.Local.Addr(), UDPPort: cfg.UDPPort, Datapath: mode, ArenaBytes: arenaBytes, Broker: cfg.Broker,
		Bulk: bulk,
	})
}

// routeTo asks the kernel for the local address that leads to the peer. It sends no packet.
func routeTo(peer netip.AddrPort) (netip.AddrPort, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(peer))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("find the local address that leads to %s: %w", peer.Addr(), err)
	}
	defer conn.Close()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("find the local address that leads to %s: got %v", peer.Addr(), conn.LocalAddr())
	}
	return netip.AddrPortFrom(local.AddrPort().Addr().Unmap(), 0), nil
}
