package datapath

import (
	"errors"
	"os"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
	"github.com/ndxdp/ndxdp/xdp"
)

// Stats counts what the datapath did beside the engine.
type Stats struct {
	Socket  xdp.Statistics
	Steered bpf.Counters // zeros when a broker has the program
	// Vanished counts packets that the steering program redirected and that no socket got. It is 0 below VanishedAlarm, because some are
	// on their way at any moment.
	Vanished uint64
	Lost     uint64 // packets that did not leave: ring full or device busy
	Foreign  uint64 // packets that arrived here and were no ND packet
	// NoSocket counts packets that arrived on a receive queue without a socket. The kernel has them: local gets them, and a lease does not.
	NoSocket uint64
	// TooLong counts lost packets that the kernel refused because they are longer than the MTU; of plain sockets only.
	TooLong uint64
	// Spins counts polls before a sleep, SpinHits the polls that spared it, and Sleeps the sleeps of applications.
	Spins, SpinHits, Sleeps uint64
	// PortTaken counts source ports that were not to be had. A path over plain sockets was not made, or has another port. A broker's client
	// hears no ICMP errors about the port.
	PortTaken uint64
	// NoDescriptors counts sockets of source ports that were not made because the process had no descriptor left, likewise.
	NoDescriptors uint64
	// InRuns counts packets that left in GSO batches, Merged packets that arrived merged by GRO: of the UDP datapath and of the bulk path.
	InRuns, Merged uint64
	// InRing counts packets that arrived in a ring; of plan.Ring and plan.TCX only.
	InRing uint64
	// LocalIn and LocalOut count packets of an adapter on AF_XDP that came and left by plain sockets, because the peer has an address of this machine.
	LocalIn, LocalOut uint64
	// ICMP errors that were not believed. ICMPMalformed are damaged, or not about whether a peer can be reached. ICMPUnmatched quote no
	// request that waits for an answer. ICMPExcess are more than are handled.
	ICMPMalformed, ICMPUnmatched, ICMPExcess uint64
}

// Stats reads the counters of the socket and of the steering program. The program's counters end with Close: os.ErrClosed.
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
		s.ICMPExcess, _ = d.icmp.Lost() // fails while the device closes
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

// VanishedAlarm is how many packets must have been redirected and not received before that is reported. It exceeds the 64 packets that a
// driver hands over at once (NAPI_POLL_WEIGHT), which may be between the program's count and the ring when the two are read.
const VanishedAlarm = 65

// vanished compares what the program redirected with what the sockets got, or counted as dropped. The sockets were read last, so what
// arrived in between is no alarm.
func vanished(steered *bpf.Counters, sockets *xdp.Statistics) uint64 {
	got := sockets.RxPackets + sockets.RxWaiting + sockets.RxDropped + sockets.RxRingFull
	if sent := steered.Redirected(); sent >= got+VanishedAlarm {
		return sent - got
	}
	return 0
}
