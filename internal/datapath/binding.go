package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/xdp"
)

// bindFacts decide how the sockets of an interface can be bound.
type bindFacts struct {
	rung        Rung // RungGeneric, RungNative or RungTCX
	single      bool // every packet fits into one frame
	multiBuffer bool // the kernel has AF_XDP multi-buffer
	brokered    bool // to a client of a broker
	exposed     bool // the broker's administrator lets clients see everything that arrives
	queues      int
	deviceRing  int // descriptors of each of the device's receive rings, 0 when it does not tell
	maxPacket   int
	// completesEarly says that a completion is no proof that the device has read the memory.
	completesEarly bool
}

// binding is a way to bind the sockets of an interface.
type binding struct {
	mode        xdp.Mode
	multiBuffer bool
	inPlace     bool // applications get memory that packets leave from
	native      bool // the driver runs the program
	sizes       sizes
	copying     string // why it copies; empty when it does not
}

// virtioNet is a driver whose packets refer to pages of this process even in copy mode (IFF_TX_SKB_NO_LINEAR). If it does not use NAPI to
// send, it completes packets before the host has read them (skb_orphan in start_xmit). Frames that are reused too early then make packets
// with a wrong checksum, which are sent again. Memory of applications must not be sent from.
const virtioNet = "virtio_net"

// completesLate says that virtio-net uses NAPI to send, as it does unless its parameter napi_tx says otherwise.
func completesLate() bool {
	set, err := os.ReadFile("/sys/module/virtio_net/parameters/napi_tx")
	return err != nil || strings.TrimSpace(string(set)) != "N"
}

// bindings lists the ways to try, best first. The last one works on every driver.
//
// In copy mode multi-buffer costs nothing, and a packet may leave from two places at once: its header, and the application's memory. In
// zero-copy mode it is asked for only where packets need it, because most drivers have none with it.
func bindings(f *bindFacts) []binding {
	usual := sizesOf(f.queues)
	copying := binding{mode: xdp.ModeCopy, multiBuffer: f.multiBuffer, sizes: usual.copying()}
	fast := binding{mode: xdp.ModeZeroCopy, multiBuffer: !f.single, sizes: usual.zeroCopy()}
	// A packet that leaves from the application's memory has a piece for its headers and another one. And whoever takes his memory back
	// must be able to know that it was read (TransmitDone).
	copying.inPlace = copying.multiBuffer && !f.completesEarly
	fast.inPlace = fast.multiBuffer
	copying.native, fast.native = f.rung == RungNative, true
	switch {
	case f.rung == RungTCX:
		copying.copying, copying.sizes = "packets are copied into the ring, and from frames when they are sent", copying.sizes.sending()
	case f.rung != RungNative:
		copying.copying = "generic XDP always copies"
	case f.brokered && !f.exposed:
		copying.copying = "with zero-copy the broker's client would see everything that arrives: ndbroker --zero-copy allows it"
	case fast.sizes.left(framesOf(f.maxPacket)) < cmp.Or(f.deviceRing, usualDeviceRing):
		copying.copying = fmt.Sprintf("with %d queues and receive rings of %d descriptors (ethtool -g) there would be too few frames for "+
			"others when this process stops", f.queues, f.deviceRing)
	default:
		return []binding{fast, copying}
	}
	return []binding{copying}
}

// firstThatBinds tries the ways in order. Only what the driver, or the limit of locked memory, says of a way leads to the next one: zero-copy has more frames.
func firstThatBinds(ways []binding, bind func(*binding) error) (*binding, error) {
	var refused error
	for i := range ways {
		w := &ways[i]
		err := bind(w)
		if err == nil {
			if refused != nil {
				w.copying = whyNotZeroCopy(refused)
			}
			return w, nil
		}
		if i == len(ways)-1 || errors.Is(err, xdp.ErrQueueBusy) || errors.Is(err, xdp.ErrPermission) {
			return nil, err
		}
		var e *xdp.Error
		if refused = err; errors.As(err, &e) {
			refused = e.Err // which interface, and what a program could do, is no news for people
		}
	}
	panic("datapath: no way to bind a socket was given")
}

// whyNotZeroCopy says for people why sockets copy that were first bound without.
func whyNotZeroCopy(err error) string {
	if errors.Is(err, xdp.ErrLockedMemory) {
		return fmt.Sprintf("zero-copy takes %v: grant CAP_IPC_LOCK, or raise the limit (ulimit -l)", err)
	}
	return fmt.Sprintf("the driver refused zero-copy: %v", err)
}

// openQueues opens a socket on every receive queue. The NIC spreads ND traffic over all queues, and packets on a queue without a socket go
// to the kernel and are lost. It returns why the sockets copy, and fills in missing facts of f.
func (d *xdpDevice) openQueues(nic *xdp.NIC, f bindFacts) (copying string, err error) {
	f.queues, f.deviceRing, f.maxPacket = max(nic.RxQueues, 1), nic.RxRing, d.maxPacket
	f.completesEarly = nic.Driver == virtioNet && !completesLate()
	if err := usableQueues(nic); err != nil { // counted again: see attach
		return "", err
	}
	way, err := firstThatBinds(bindings(&f), func(w *binding) error {
		err := d.bind(nic, w, uint32(f.queues), f.brokered)
		if err != nil {
			err = errors.Join(err, d.closeSockets())
		}
		return err
	})
	if err != nil {
		return "", err
	}
	d.sizes, d.info.Socket = way.sizes, d.queues[0].sock.Info()
	return way.copying, nil
}

// usableQueues says why the queues of an interface cannot have a socket each; nil when they can.
func usableQueues(nic *xdp.NIC) error {
	queues := max(nic.RxQueues, 1)
	switch {
	case queues > provider.MaxEngines:
		return unfit(ErrQueues, "open sockets on %s: it has %d receive queues, and at most %d can be used: lower their number "+
			"(ethtool -L %s; ndinfo doctor names the whole command)", nic.Name, queues, provider.MaxEngines, nic.Name)
	case queues > nic.TxQueues: // the kernel says nothing about what a socket of a queue sends that only receives: it lies in the ring for ever
		return unfit(ErrQueues, "open sockets on %s: it receives on %d queues and can send on %d only: use as many of each "+
			"(ethtool -L %s; a virtual machine: no more queues than CPUs)", nic.Name, queues, nic.TxQueues, nic.Name)
	}
	return nil
}

// usableMTU says why sockets cannot receive the packets of an interface; nil when they can. multi says that the kernel has AF_XDP multi-buffer.
func usableMTU(nic *xdp.NIC, multi bool) error {
	if multi || nic.MTU+frameOverhead <= maxFrame {
		return nil
	}
	return unfit(ErrMTU, "open a socket on %s: MTU %d needs AF_XDP multi-buffer, which this kernel lacks (Linux 6.6 has it): "+
		"lower the MTU to %d or less (ip link set %s mtu %d)", nic.Name, nic.MTU, maxFrame-frameOverhead, nic.Name, maxFrame-frameOverhead)
}

// bind opens the sockets in one way. They share one UMEM, so that every queue can send from the arena; another process can map it when
// a client of a broker gets it.
func (d *xdpDevice) bind(nic *xdp.NIC, w *binding, queues uint32, shared bool) error {
	frames := xdp.UMEMConfig{RxFrames: queues * w.sizes.rxFrames, TxFrames: queues * w.sizes.txFrames, Shared: shared}
	if w.inPlace {
		frames.ArenaBytes = d.cfg.Arena
	}
	need := uint64(frames.RxFrames+frames.TxFrames)*xdp.FrameSize + uint64(frames.ArenaBytes)
	if err := pinnable(need, host.Unlimited, host.RoomOfGroups()); err != nil { // the kernel says what may be locked
		return err
	}
	umem, err := xdp.NewUMEM(frames)
	if err != nil {
		return err
	}
	d.umem, d.arena = umem, newArena(umem)
	for number := range queues {
		c := w.sizes.config()
		c.Ifindex, c.Queue, c.Mode, c.MultiBuffer, c.TxBudget = nic.Index, number, w.mode, w.multiBuffer, txBudget
		c.BusyPoll = d.cfg.BusyPoll && w.native
		if shared || d.filling != nil {
			c.BindTimeout = shortBindTimeout
		}
		sock, err := xdp.Open(umem, c)
		if err != nil {
			return err
		}
		if err := d.addQueue(sock); err != nil {
			return err
		}
	}
	return nil
}

// shortBindTimeout is how long a broker, and RungTCX, wait for a queue whose last socket has closed, which the kernel frees some milliseconds later. Somebody else may
// have it, and there is RungRing to fall back on.
const shortBindTimeout = 100 * time.Millisecond

func (d *xdpDevice) addQueue(sock *xdp.Socket) (err error) {
	q := &queue{busyPoll: sock.Info().BusyPoll, device: d, sock: sock, mac: d.mac, maxPacket: d.maxPacket, txDescs: make([]xdp.Desc, 0, provider.TxBatch*provider.MaxFrags), paths: make([]path, 1)} // path 0 is none
	d.queues = append(d.queues, q)
	if d.filling != nil {
		return q.mapRing(d.filling)
	}
	q.Sleeper, err = sleep.New(sock.FD(), sock.RxWaiting, d.cfg.longestSpin())
	return err
}
