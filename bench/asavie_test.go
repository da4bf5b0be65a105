package bench

import (
	"runtime"
	"sync/atomic"
	"testing"

	asavie "github.com/asavie/xdp"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/xdp"
)

// This is a comparison with github.com/asavie/xdp v0.3.3: packets of 1500 bytes through one veth pair in generic mode, with sender and
// receiver on their own threads. Payload is copied on both sides, and neither side waits for the other. The faults of that library affect
// the result, and are left as they are:
//   - ring indices are read and written with plain loads and stores, so neither the race detector nor another
//     architecture's memory order can be satisfied; on amd64 it happens to work;
//   - GetDescs searches all frames from the first one for every batch, so many frames cost time: it gets few;
//   - every Transmit is a system call that sends 32 packets at most, and what is left waits for the next one;
//   - Transmit panics on any errno that it does not expect, for instance when the interface goes down;
//   - Attach and Detach remove whatever program is on the interface, its own or not; and Detach of a program in generic
//     mode never returns on a driver that has a native mode, veth for one, because it asks to remove the native program
//     and then waits for the generic one to go. So nobody calls it here: the program goes with the veth pair;
//   - its program sends every packet of the queue to the socket without looking at it, ARP and SSH included; "ours with
//     their program" shows what our looking costs;
//   - one buffer a packet, so nothing beyond MTU 3500 (1500 here); no need-wakeup, no shared UMEM.

const (
	duelMTU   = 1500
	duelBatch = 64
)

// contender is one side's socket, of either library.
type contender interface {
	sendBatch(payload []byte)    // up to duelBatch packets
	receiveBatch(dst []byte) int // packets taken, payload copied to dst
	close()
}

func BenchmarkPackets(b *testing.B) {
	for _, c := range []struct {
		name string
		open func(Job) (contender, error)
	}{
		{"ours", openOurs},
		{"ours with their program", openMixed},
		{"asavie", openAsavie},
	} {
		b.Run(c.name, func(b *testing.B) { duel(b, c.open) })
	}
}

// duel counts how many packets a second arrive while the sender sends at full speed.
func duel(b *testing.B, open func(Job) (contender, error)) {
	pair, job := newPair(b, netlab.PairConfig{MTU: duelMTU})
	var stop atomic.Bool
	ready, sent := make(chan struct{}), make(chan error, 1)
	go func() {
		sent <- pair.A.Do(func() error {
			s, err := open(job)
			if err != nil {
				return err
			}
			defer s.close()
			close(ready)
			payload := make([]byte, duelMTU-(rawHeader-14)-rawShim)
			for !stop.Load() {
				s.sendBatch(payload)
			}
			return nil
		})
	}()
	err := pair.B.Do(func() error {
		runtime.LockOSThread()
		other := job
		other.Local, other.Peer = job.Peer, job.Local
		r, err := open(other)
		if err != nil {
			return err
		}
		defer r.close()
		select {
		case <-ready:
		case err := <-sent:
			return err
		}
		defer func() { // before the socket closes
			stop.Store(true)
			if err := <-sent; err != nil {
				b.Error(err)
			}
		}()
		dst := make([]byte, 4096)
		packets := 0
		b.ReportAllocs()
		for b.Loop() {
			// One operation is a batch of packets, however many polls it takes.
			got := 0
			for got < duelBatch {
				got += r.receiveBatch(dst)
			}
			packets += got
		}
		b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// ours is the raw link of the baseline.
type ours struct{ l *rawLink }

func openOurs(j Job) (contender, error) {
	l, err := openRaw(j, duelMTU)
	return ours{l}, err
}

func (o ours) sendBatch(payload []byte) {
	for range duelBatch {
		if !o.l.push(rawData, 0, payload) {
			break
		}
	}
	if err := o.l.flush(); err != nil {
		panic(err) // like the sockets of asavie/xdp
	}
}

func (o ours) receiveBatch(dst []byte) int {
	descs := o.l.receive()
	n := 0
	for rest := descs; len(rest) > 0; n++ {
		var packet []xdp.Desc
		packet, rest = xdp.NextPacket(rest)
		o.l.copyOut(dst, packet)
	}
	o.l.recycle(descs)
	return n
}

func (o ours) close() { _ = o.l.close() }

// mixed is our socket behind the program of asavie/xdp.
type mixed struct {
	ours
	program *asavie.Program
}

func openMixed(j Job) (contender, error) {
	m := mixed{ours: ours{&rawLink{mtu: duelMTU, descs: make([]xdp.Desc, 512), tx: make([]xdp.Desc, 0, 2048)}}}
	err := m.l.setHeader(j, 14791)
	if err == nil {
		m.program, err = attachAsavie(j.Local.Ifindex)
	}
	if err == nil {
		m.l.umem, err = xdp.NewUMEM(xdp.UMEMConfig{})
	}
	if err == nil {
		m.l.sock, err = xdp.Open(m.l.umem, xdp.Config{
			Ifindex: j.Local.Ifindex, Mode: xdp.ModeCopy, TxBudget: rawTxBudget,
		})
	}
	if err == nil {
		err = m.program.Register(0, m.l.sock.FD())
	}
	return m, err
}

func (m mixed) close() {
	m.ours.close()
	_ = m.program.Close()
}

func attachAsavie(ifindex int) (*asavie.Program, error) {
	asavie.DefaultXdpFlags = unix.XDP_FLAGS_SKB_MODE
	program, err := asavie.NewProgram(1)
	if err != nil {
		return nil, err
	}
	return program, program.Attach(ifindex)
}

// theirs is asavie/xdp, used as in its own examples.
type theirs struct {
	program *asavie.Program
	sock    *asavie.Socket
	headers *rawLink // only for building packets
}

func openAsavie(j Job) (contender, error) {
	headers := &rawLink{mtu: duelMTU}
	err := headers.setHeader(j, 14791)
	t := &theirs{headers: headers}
	if err == nil {
		t.program, err = attachAsavie(j.Local.Ifindex)
	}
	if err == nil {
		t.sock, err = asavie.NewSocket(j.Local.Ifindex, 0, &asavie.SocketOptions{
			NumFrames: 1024, FrameSize: 2048, FillRingNumDescs: 512, CompletionRingNumDescs: 512,
			RxRingNumDescs: 512, TxRingNumDescs: 512,
		})
	}
	if err == nil {
		err = t.program.Register(0, t.sock.FD())
	}
	return t, err
}

func (t *theirs) sendBatch(payload []byte) {
	descs := t.sock.GetDescs(min(duelBatch, t.sock.NumFreeTxSlots()))
	for i := range descs {
		frame := t.sock.GetFrame(descs[i])
		t.headers.putHeader(frame, rawData, 0, len(payload))
		n := copy(frame[rawHeader+rawShim:], payload)
		descs[i].Len = uint32(rawHeader + rawShim + n)
	}
	t.sock.Transmit(descs)
	if n := t.sock.NumCompleted(); n > 0 {
		t.sock.Complete(n)
	}
}

func (t *theirs) receiveBatch(dst []byte) int {
	if n := t.sock.NumFreeFillSlots(); n > 0 {
		t.sock.Fill(t.sock.GetDescs(n))
	}
	descs := t.sock.Receive(t.sock.NumReceived())
	for i := range descs {
		copy(dst, t.sock.GetFrame(descs[i])[rawHeader+rawShim:])
	}
	return len(descs)
}

func (t *theirs) close() {
	_ = t.sock.Close()
	_ = t.program.Close()
}
