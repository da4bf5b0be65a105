package datapath

import (
	"errors"
	"os"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
	"github.com/ndxdp/ndxdp/xdp"
)

// Stats counts the work of the datapath outside the engine.
type Stats struct {
	Socket  xdp.Statistics
	Steered bpf.Counters // zeros if a broker has the program
	// Vanished counts packets that the steering program redirected and no socket received. It is 0 below VanishedAlarm, because some
	// packets are under way at any moment.
	Vanished uint64
	Lost     uint64 // packets that did not leave, because the ring was full or the device busy
	Foreign  uint64 // packets that arrived here and are no ND packets
	// NoSocket counts packets that arrived on a receive queue without a socket. The kernel delivers them to the plain socket of the
	// adapter. A lease has no plain socket.
	NoSocket uint64
	// TooLong counts lost packets that the kernel refused because they exceed the MTU, on plain sockets only.
	TooLong uint64
	// Spins counts pollings before a sleep, SpinHits the pollings that avoided it, and Sleeps the sleeps of applications.
	Spins, SpinHits, Sleeps uint64
	// PortTaken counts source ports that could not be opened. The path over plain sockets was not made, or has another port. A broker's
	// client receives no ICMP errors about the port.
	PortTaken uint64
	// NoDescriptors counts sockets of source ports that were not opened because the process had no free descriptor.
	NoDescriptors uint64
	// InRuns counts packets that left in GSO batches, and Merged counts packets that arrived merged by GRO, on the UDP datapath and on
	// the bulk path.
	InRuns, Merged uint64
	// InRing counts packets that arrived in a ring, with plan.Ring and plan.TCX only.
	InRing uint64
	// LocalIn and LocalOut count packets of the adapter to itself. Of an adapter on AF_XDP they also count packets that came and left by plain
	// sockets, because the peer has an address of this machine.
	LocalIn, LocalOut uint64
	// These are ICMP errors that were not accepted. ICMPMalformed counts damaged errors, and errors that do not say whether a peer can be
	// reached. ICMPUnmatched counts errors that quote no request that waits for an answer. ICMPExcess counts errors beyond the number
	// that is handled.
	ICMPMalformed, ICMPUnmatched, ICMPExcess uint64
}

// Stats reads the counters of the socket and of the steering program. After Close the program's counters are gone, and the error is
// os.ErrClosed.
func (d *xdpDevice) Stats() (Stats, error) {
	var s Stats
	d.unreachable.addTo(&s)
	if d.heard != nil {
		d.heard.sources.addTo(&s)
	}
	d.statsMu.Lock()
	defer d.statsMu.Unlock()
	if len(d.queues) == 0 {
		return s, os.ErrClosed
	}
	if d.icmp != nil {
		s.ICMPExcess, _ = d.icmp.Lost() // Lost fails while the device closes
	}
	var err error
	if d.steering != nil {
		s.Steered, err = d.steering.Counters()
	}
	for _, q := range d.queues {
		s.Lost += q.lost.Load()
		s.Foreign += q.foreign.Load()
		s.addSleeps(q.Sleeper)
		q.ring.addTo(&s)
		q.loop.addTo(&s)
		one, failed := q.sock.Stats()
		s.Socket.Add(&one)
		err = errors.Join(err, failed)
	}
	s.NoSocket = s.Steered[bpf.VerdictNoSocket]
	s.Vanished = vanished(&s.Steered, &s.Socket)
	// Drops of the sockets beside the rings are added only now, because the program did not redirect any of these packets.
	if d.bulk != nil {
		d.bulk.addTo(&s)
	}
	if d.local != nil {
		d.local.addTo(&s)
	}
	return s, err
}

// addSleeps adds the counters of a sleeper.
func (s *Stats) addSleeps(from *sleep.Sleeper) {
	spins, hits, sleeps := from.Counts()
	s.Spins += spins
	s.SpinHits += hits
	s.Sleeps += sleeps
}

// VanishedAlarm is the number of redirected packets without a receiver from which on they are reported. It exceeds the 64 packets that a
// driver hands over at once (NAPI_POLL_WEIGHT), which may be between the program's count and the ring when the two are read.
const VanishedAlarm = 65

// vanished returns the number of packets that the program redirected, less the packets that the sockets received or counted as dropped.
// The sockets were read last, so packets that arrived in between cause no alarm.
func vanished(steered *bpf.Counters, sockets *xdp.Statistics) uint64 {
	got := sockets.RxPackets + sockets.RxWaiting + sockets.RxDropped + sockets.RxRingFull
	if sent := steered.Redirected(); sent >= got+VanishedAlarm {
		return sent - got
	}
	return 0
}
