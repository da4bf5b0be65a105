package plan

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/xdp"
)

// BindFacts decide how the sockets of an interface can be bound.
type BindFacts struct {
	Datapath    Datapath // Generic, Native or TCX
	Single      bool     // every packet fits into one frame
	MultiBuffer bool     // the kernel has AF_XDP multi-buffer
	Brokered    bool     // to a client of a broker
	Exposed     bool     // the broker's administrator lets clients see everything that arrives
	queues      int
	deviceRing  int // descriptors of each of the device's receive rings, 0 when it does not tell
	maxPacket   int
	// completesEarly says that a completion is no proof that the device has read the memory.
	completesEarly bool
}

// Binding is a way to bind the sockets of an interface.
type Binding struct {
	Mode        xdp.Mode
	MultiBuffer bool
	InPlace     bool // applications get memory that packets leave from
	Sizes       Sizes
	Copying     string // why it copies; empty when it does not
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

// See fills in the facts of an interface with packets of up to MaxPacket bytes.
func (f *BindFacts) See(nic *xdp.NIC, maxPacket int) {
	f.queues, f.deviceRing, f.maxPacket = max(nic.RxQueues, 1), nic.RxRing, maxPacket
	f.completesEarly = nic.Driver == virtioNet && !completesLate()
}

// Bind tries the ways to bind the sockets, best first, and returns the way that binds them.
func (f *BindFacts) Bind(bind func(*Binding) error) (*Binding, error) {
	return firstThatBinds(bindings(f), bind)
}

// bindings lists the ways to try, best first. The last one works on every driver.
//
// In copy mode multi-buffer costs nothing, and a packet may leave from two places at once: its header, and the application's memory. In
// zero-copy mode it is asked for only where packets need it, because most drivers have none with it.
func bindings(f *BindFacts) []Binding {
	usual := sizesOf(f.queues)
	copying := Binding{Mode: xdp.ModeCopy, MultiBuffer: f.MultiBuffer, Sizes: usual.copying()}
	fast := Binding{Mode: xdp.ModeZeroCopy, MultiBuffer: !f.Single, Sizes: usual.zeroCopy()}
	// A packet that leaves from the application's memory has a piece for its headers and another one. And whoever takes his memory back
	// must be able to know that it was read (TransmitDone).
	copying.InPlace = copying.MultiBuffer && !f.completesEarly
	fast.InPlace = fast.MultiBuffer
	switch {
	case f.Datapath == TCX:
		copying.Copying, copying.Sizes = "packets are copied into the ring, and from frames when they are sent", copying.Sizes.sending()
	case f.Datapath != Native:
		copying.Copying = "generic XDP always copies"
	case f.Brokered && !f.Exposed:
		copying.Copying = "with zero-copy the broker's client would see everything that arrives: ndbroker --zero-copy allows it"
	case fast.Sizes.left(framesOf(f.maxPacket)) < cmp.Or(f.deviceRing, usualDeviceRing):
		copying.Copying = fmt.Sprintf("with %d queues and receive rings of %d descriptors (ethtool -g) there would be too few frames for "+
			"others when this process stops", f.queues, f.deviceRing)
	default:
		return []Binding{fast, copying}
	}
	return []Binding{copying}
}

// firstThatBinds tries the ways in order. Only what the driver, or the limit of locked memory, says of a way leads to the next one: zero-copy has more frames.
func firstThatBinds(ways []Binding, bind func(*Binding) error) (*Binding, error) {
	var refused error
	for i := range ways {
		w := &ways[i]
		err := bind(w)
		if err == nil {
			if refused != nil {
				w.Copying = whyNotZeroCopy(refused)
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

// UsableQueues says why the queues of an interface cannot have a socket each; nil when they can.
func UsableQueues(nic *xdp.NIC) error {
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
