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
	Brokered    bool     // the sockets are for a client of a broker
	Exposed     bool     // the broker's administrator lets clients see all arriving packets
	queues      int
	deviceRing  int // descriptors of each receive ring of the device, 0 if unknown
	maxPacket   int
	// completesEarly is true if a completion does not show that the device has read the memory.
	completesEarly bool
}

// Binding is a way to bind the sockets of an interface.
type Binding struct {
	Mode        xdp.Mode
	MultiBuffer bool
	InPlace     bool // applications get memory from which packets are sent without a copy
	Sizes       Sizes
	Copying     string // why the sockets copy; empty if they do not
}

// virtioNet is a driver whose packets refer to pages of this process even in copy mode (IFF_TX_SKB_NO_LINEAR). If it does not use NAPI to
// send, it completes packets before the host has read them (skb_orphan in start_xmit). Frames that are reused too early then make packets
// with a wrong checksum, which are sent again. Then packets must not be sent from memory of applications.
const virtioNet = "virtio_net"

// completesLate reports whether virtio-net uses NAPI to send. It does unless its parameter napi_tx says otherwise.
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

// bindings lists the bindings to try, best first. The last binding works on every driver.
//
// In copy mode multi-buffer costs nothing, and lets a packet leave from two places: its header, and the application's memory. In
// zero-copy mode multi-buffer is requested only if packets need it, because most drivers do not combine it with zero-copy.
func bindings(f *BindFacts) []Binding {
	usual := sizesOf(f.queues)
	copying := Binding{Mode: xdp.ModeCopy, MultiBuffer: f.MultiBuffer, Sizes: usual.copying()}
	fast := Binding{Mode: xdp.ModeZeroCopy, MultiBuffer: !f.Single, Sizes: usual.zeroCopy()}
	// A packet that leaves from the application's memory has one piece for its headers and one for the payload. And an application that
	// frees memory must know that the memory was read (TransmitDone).
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

// firstThatBinds tries the bindings in order. It tries the next binding only if the driver or the limit of locked memory refused one,
// because zero-copy needs more frames.
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
			refused = e.Err // drop the interface and the remedy, which the text for users repeats
		}
	}
	panic("datapath: no way to bind a socket was given")
}

// whyNotZeroCopy returns the reason, for users, why sockets copy although zero-copy was tried first.
func whyNotZeroCopy(err error) string {
	if errors.Is(err, xdp.ErrLockedMemory) {
		return fmt.Sprintf("zero-copy takes %v: grant CAP_IPC_LOCK, or raise the limit (ulimit -l)", err)
	}
	return fmt.Sprintf("the driver refused zero-copy: %v", err)
}

// UsableQueues returns the reason why the queues of an interface cannot have one socket each, or nil.
func UsableQueues(nic *xdp.NIC) error {
	queues := max(nic.RxQueues, 1)
	switch {
	case queues > provider.MaxEngines:
		return unfit(ErrQueues, "open sockets on %s: it has %d receive queues, and at most %d can be used: lower their number "+
			"(ethtool -L %s; ndinfo doctor names the whole command)", nic.Name, queues, provider.MaxEngines, nic.Name)
	case queues > nic.TxQueues: // if a queue only receives, the kernel never sends the packets of its socket, and reports no error
		return unfit(ErrQueues, "open sockets on %s: it receives on %d queues and can send on %d only: use as many of each "+
			"(ethtool -L %s; a virtual machine: no more queues than CPUs)", nic.Name, queues, nic.TxQueues, nic.Name)
	}
	return nil
}

// usableMTU returns the reason why sockets cannot receive the packets of an interface, or nil. multi reports whether the kernel has
// AF_XDP multi-buffer.
func usableMTU(nic *xdp.NIC, multi bool) error {
	if multi || nic.MTU+frameOverhead <= maxFrame {
		return nil
	}
	return unfit(ErrMTU, "open a socket on %s: MTU %d needs AF_XDP multi-buffer, which this kernel lacks (Linux 6.6 has it): "+
		"lower the MTU to %d or less (ip link set %s mtu %d)", nic.Name, nic.MTU, maxFrame-frameOverhead, nic.Name, maxFrame-frameOverhead)
}
