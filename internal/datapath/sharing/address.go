package sharing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/internal/doorbell"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/ports"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// This file shares an address among the adapters of a machine (PROTOCOL §7.8). The first adapter receives on the well-known UDP port, and
// all others on ports of their own. Requests for other adapters that arrive on the well-known port are handed over.

const (
	// wellKnownBuffer holds the requests of a thousand peers that connect at once.
	wellKnownBuffer = 4 << 20
	// takeOverPause is the time between two attempts to get the well-known port from a process that is ending. After takeOverPatience the
	// port is held by another process, and the time becomes longestPause.
	takeOverPause, takeOverPatience, longestPause = time.Millisecond, time.Second, 250 * time.Millisecond
	// portPatience is how long the first adapter waits for the well-known port. A process that ends gives up its name first, and its port
	// a little later.
	portPatience = 250 * time.Millisecond
)

// They are variables, because tests cannot wait that long. SquatPatience is how long the name of the well-known port may be held while
// the port is unused, before the name counts as squatted. An adapter that opens takes its name before its port. LookAgain is the time
// between two checks of an adapter that waits for the port.
var SquatPatience, LookAgain = 2 * time.Second, 5 * time.Second

// Address is the state that the adapters of one address share.
type Address struct {
	at      netip.AddrPort // the well-known port, in the form that Port returns
	Network *udp.Network
	space   *ports.Space
	holding *ports.Holding
	First   bool // the adapter has the well-known port from the start
	// kept is a socket that held the well-known port before the adapter was opened. It is nil if there was none, or once it is used.
	kept *udp.Socket
	// apart is set if this process gets no AF_UNIX sockets, through which adapters of the machine share an address. The adapter then
	// shares nothing, and the UDP port alone shows which adapter was first.
	apart  bool
	Asked  bool // a broker was asked for a lease and gave none; it may hold the well-known port for a moment
	Late   bool // the first adapter then opens the well-known port later
	Scope  int  // for the sockets; see udp.Config
	Device int
	// Toward returns the link-layer address of the sender of a packet that is passed to the engine here, and whether it is known yet. It
	// is nil if the link resolves addresses.
	Toward func(peer netip.Addr) (mac [6]byte, known bool)

	notice atomic.Pointer[string] // what the user should know about the port or its name; nil for nothing

	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

// Join finds out whether the address has adapters already. at is the well-known port, in the form that Port returns.
func Join(at netip.AddrPort) (*Address, error) {
	network, err := udp.NewNetwork()
	if err != nil {
		return nil, err
	}
	held, err := doorbell.Take(network, at)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take over the sockets that were kept for adapters of %s: %w", at, err), network.Close())
	}
	c := &Address{at: at, Network: network}
	c.ctx, c.end = context.WithCancel(context.Background())
	if held != nil {
		c.Network, c.space, c.holding, c.kept, c.First = held.Network, held.Space, held.Holding, held.Socket, true
		return c, network.Close()
	}
	c.space, c.holding = ports.NewSpace(network, at), ports.NewHolding(network, at)
	switch err := c.holding.Try(); {
	case err == nil:
		c.First = true
	case host.NotOffered(err):
		c.First, c.apart, c.Asked = true, true, true
	case !errors.Is(err, ports.ErrTaken):
		return nil, errors.Join(fmt.Errorf("look for other adapters of %s: %w", at, err), c.Leave())
	default:
		c.lookAround()
	}
	return c, nil
}

// Port returns the well-known port that the adapters of an address share. Several interfaces may have the same link-local address, each
// with a port of its own. So the port has the index of the interface as a zone.
func Port(addr netip.Addr, port uint16, index int) netip.AddrPort {
	addr = addr.Unmap()
	if addr.Is6() && addr.IsLinkLocalUnicast() {
		addr = addr.WithZone(strconv.Itoa(index))
	}
	return netip.AddrPortFrom(addr, port)
}

// HasAdapter reports whether an adapter of this machine, in the calling thread's network namespace, holds the well-known port at. The
// query needs no privilege.
func HasAdapter(at netip.AddrPort) (bool, error) { return ports.Held(at) }

// HolderOf returns the process that listens at the name of the well-known port at, in the calling thread's network namespace. listens is
// false if none does.
func HolderOf(at netip.AddrPort) (who ports.Holder, listens bool, err error) {
	network, err := udp.NewNetwork()
	if err != nil {
		return who, false, err
	}
	who, listens = ports.HolderOf(network, at)
	return who, listens, network.Close()
}

// Why returns the reason that a later adapter reports.
func (c *Address) Why() string { return Reason(c.at) }

func Reason(at netip.AddrPort) string {
	return fmt.Sprintf("another adapter of this machine has UDP port %d of %s, so AF_XDP is not opened here", at.Port(), at.Addr())
}

// HandOver implements provider.PortSpace.
func (c *Address) HandOver(p *provider.RxPacket, port uint16) provider.HandOver {
	if c.apart {
		return provider.HandOverNobody
	}
	var pieces [provider.MaxFrags][]byte
	for i := range p.N {
		pieces[i] = p.Frags[i].Data
	}
	switch c.space.Hand(port, p.From.AddrPort(), p.To.Port, pieces[:p.N], time.Now()) {
	case ports.Done:
		return provider.HandOverDone
	case ports.Dropped:
		return provider.HandOverDropped
	case ports.Refused:
		return provider.HandOverRefused
	case ports.Nobody:
	}
	return provider.HandOverNobody
}

// Claim implements provider.PortSpace.
func (c *Address) Claim(port uint16) provider.Outcome {
	if c.apart {
		return provider.OutcomeSuccess
	}
	switch err := c.space.Claim(port); {
	case err == nil:
		return provider.OutcomeSuccess
	case errors.Is(err, ports.ErrTaken):
		return provider.OutcomeSharingViolation
	}
	return provider.OutcomeInsufficientResources
}

// Release implements provider.PortSpace.
func (c *Address) Release(port uint16) { c.space.Release(port) }

// Mark implements provider.PortSpace.
func (c *Address) Mark(first uint16) bool { return c.space.Mark(first) }

// Unmark implements provider.PortSpace.
func (c *Address) Unmark(first uint16) { c.space.Unmark(first) }

// Start receives what others send to this adapter, and takes the well-known port once no process holds it. own runs a function as the
// owner of an engine.
func (c *Address) Start(own func(port int, f func(*provider.Engine))) {
	c.space.Serve(func(r ports.Request) {
		p := injected(r.From, r.To, r.Packet)
		p.Handed, p.Unproven = true, !r.Trusted
		c.give(&p, own)
	})
	if !c.First || c.Late {
		c.running.Go(func() {
			if c.Late || c.await() {
				c.receiveOnWellKnown(own)
			}
		})
	}
}

// injected makes a packet of bytes that are in no frame.
func injected(from, to netip.AddrPort, b []byte) provider.RxPacket {
	p := provider.RxPacket{From: wire.EndpointFrom(from), To: wire.EndpointFrom(to), N: 1, Len: len(b)}
	p.Frags[0].Data = b
	return p
}

// receiveOnWellKnown passes the packets of the well-known port to the leading engine. They are requests, and packets for connections of
// processes that ended.
func (c *Address) receiveOnWellKnown(own func(port int, f func(*provider.Engine))) {
	conn := c.openWellKnown()
	if conn == nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(c.ctx, func() { conn.Close() })()
	buf := make([]byte, wire.MaxPacket)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) || c.ctx.Err() != nil {
			return
		}
		if err != nil { // a lasting error must not keep a core busy
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(takeOverPause):
			}
			continue
		}
		if n < wire.BaseHeaderLen {
			continue
		}
		p := injected(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), c.at, buf[:n])
		c.give(&p, own)
	}
}

// give passes a packet to the leading engine. If the packet cannot be answered yet, it is lost, and the peer repeats its request.
func (c *Address) give(p *provider.RxPacket, own func(port int, f func(*provider.Engine))) {
	if c.Toward != nil {
		var known bool
		if p.MAC, known = c.Toward(p.From.AddrPort().Addr()); !known {
			return
		}
	}
	own(0, func(e *provider.Engine) { provider.Inject(e, p) })
}

// openWellKnown opens a socket on the well-known port. The last holder may not have closed the port yet. The result is nil if the adapter
// ends before.
func (c *Address) openWellKnown() *net.UDPConn {
	began := time.Now()
	for {
		pause := takeOverPause
		if time.Since(began) > takeOverPatience {
			pause = longestPause
			c.note(fmt.Sprintf("another program has UDP port %d of %s, so requests of peers reach no adapter: end that program (ndinfo doctor names it)", c.at.Port(), c.at.Addr()))
		}
		if s, err := c.Network.Open(udp.Config{Local: c.at, Scope: c.Scope, Device: c.Device, ReceiveBuffer: wellKnownBuffer}); err == nil {
			f := os.NewFile(uintptr(s.FD()), "well-known port")
			conn, err := net.FilePacketConn(f) // conn has a descriptor of its own
			_ = f.Close()
			if err == nil {
				if pause == longestPause {
					c.notice.Store(nil)
				}
				return conn.(*net.UDPConn)
			}
		}
		select {
		case <-c.ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Patiently opens a socket on a port that an ending process may hold for a moment.
func Patiently(open func() (*udp.Socket, error)) (*udp.Socket, error) {
	for began := time.Now(); ; time.Sleep(takeOverPause) {
		s, err := open()
		if err == nil || !errors.Is(err, udp.ErrPortTaken) || time.Since(began) > portPatience {
			return s, err
		}
	}
}

// TakeKept returns the socket that held the well-known port before the adapter was opened, once, and then nil.
func (c *Address) TakeKept() *udp.Socket {
	s := c.kept
	c.kept = nil
	return s
}

// LetGo closes the socket that was kept.
func (c *Address) LetGo() error {
	if c.kept == nil {
		return nil
	}
	err := c.kept.Close()
	c.kept = nil
	return err
}

// Leave frees everything, and waits until nothing is passed to an engine.
func (c *Address) Leave() error {
	c.end()
	c.running.Wait()
	return errors.Join(c.LetGo(), c.space.Close(), c.holding.Close(), c.Network.Close())
}
