package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ndxdp/ndxdp/xdp"
)

// The ceiling of nd: packets of nd's size, through the same sockets and program. Both sides poll, and payload is copied where nd
// copies it, but there is no checksum, no reliability and no handshake. Streams have a window, because an overrun receiver would
// only measure how fast packets can be dropped.

// runRaw runs the job's specs over raw AF_XDP, on one socket.
func (j Job) runRaw(ctx context.Context, c Coordinator, sink Sink) (err error) {
	if len(j.Specs) == 0 {
		return nil
	}
	mtu := j.Specs[0].MTU
	l, err := openRaw(j, mtu)
	if err != nil {
		return fmt.Errorf("raw: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for i, s := range j.Specs {
		s = s.WithDefaults()
		if err := c.Meet(ctx, "raw "+s.String()); err != nil {
			return err
		}
		if j.Role == Requester {
			sink.Started(s)
		}
		r := rawRun{ctx: ctx, link: l, spec: s, variant: j.variantOf(s, l.datapath), id: uint64(i), deadline: time.Now().Add(s.budget())}
		b, err := r.run(j.Role)
		if err != nil {
			return fmt.Errorf("raw %s: %w", s, err)
		}
		if b != nil {
			sink.Baseline(*b)
		}
	}
	// The first side to finish must not close its socket before its peer has finished.
	return c.Meet(ctx, "raw done")
}

// rawRun is the state of one spec over a raw link.
type rawRun struct {
	ctx      context.Context
	link     *rawLink
	spec     Spec
	id       uint64 // distinguishes this run's end packets from the previous run's
	deadline time.Time
	spins    int
	variant  string
	trip     uint64 // number of the ping-pong's present message
	lost     uint64
}

func (r *rawRun) run(role Role) (*Baseline, error) {
	s := r.spec
	b := &Baseline{Kind: KindRaw, Test: s.Test, Size: s.Size, MTU: s.MTU, Datapath: r.link.datapath, Variant: r.variant}
	if s.Test.IsLatency() && s.Size > r.link.payloadRoom() {
		return nil, fmt.Errorf("a packet at MTU %d takes %d bytes: choose a smaller size or leave raw out (--baseline tcp)",
			s.MTU, r.link.payloadRoom())
	}
	var err error
	switch {
	case s.Test.IsLatency() && role == Requester:
		err = ping(s, b, r.roundTrip)
		err = errors.Join(err, r.end())
	case s.Test.IsLatency():
		return nil, errors.Join(r.echo(), r.answerEnd())
	case role == Requester:
		return nil, r.source()
	default:
		err = errors.Join(r.sink(b), r.answerEnd())
	}
	if r.lost > 0 {
		b.Note = fmt.Sprintf("%d packets were lost", r.lost)
	}
	b.setRate()
	return b, err
}

// spin is called in every poll without packets. It reads the clock rarely.
func (r *rawRun) spin() error {
	r.spins++
	if r.spins&0xffff != 0 {
		return nil
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if time.Now().After(r.deadline) {
		return fmt.Errorf("no packet from the peer until the deadline: %w", os.ErrDeadlineExceeded)
	}
	return nil
}

// lostAfter is the number of empty polls after which a message counts as lost: tens of milliseconds, without reading the clock.
const lostAfter = 1 << 20

// roundTrip sends msg and waits for its echo.
func (r *rawRun) roundTrip(msg []byte) error {
	r.trip++
	if err := r.say(msg); err != nil {
		return err
	}
	for turn := 1; ; turn++ {
		descs := r.link.receive()
		if len(descs) == 0 {
			if err := r.spin(); err != nil {
				return err
			}
			if turn%lostAfter == 0 {
				r.lost++
				if err := r.say(msg); err != nil {
					return err
				}
			}
			continue
		}
		got := false
		for rest := descs; len(rest) > 0; {
			var packet []xdp.Desc
			packet, rest = xdp.NextPacket(rest)
			if kind, seq := r.link.parse(packet); kind == rawData && seq == r.trip {
				r.link.copyOut(msg, packet)
				got = true
			}
		}
		r.link.recycle(descs)
		if got {
			return nil
		}
	}
}

func (r *rawRun) say(msg []byte) error {
	r.link.push(rawData, r.trip, msg)
	return r.link.flush()
}

// echo answers until the requester ends the run.
func (r *rawRun) echo() error {
	msg := make([]byte, r.spec.Size)
	for {
		descs := r.link.receive()
		if len(descs) == 0 {
			if err := r.spin(); err != nil {
				return err
			}
			continue
		}
		ended := false
		for rest := descs; len(rest) > 0; {
			var packet []xdp.Desc
			packet, rest = xdp.NextPacket(rest)
			switch kind, seq := r.link.parse(packet); kind {
			case rawData:
				n := r.link.copyOut(msg, packet)
				r.link.push(rawData, seq, msg[:n])
			case rawEnd:
				ended = ended || seq == r.id
			}
		}
		err := r.link.flush()
		r.link.recycle(descs)
		if err != nil || ended {
			return err
		}
	}
}

const (
	// creditEvery is the number of packets between two credits of the receiver, unless the window is smaller.
	creditEvery = 64
	// resyncAfter is how long the sender waits for credit before all packets in flight count as lost.
	resyncAfter = 20 * time.Millisecond
)

// window returns the largest number of packets in flight: a quarter of the receiver's ring, which its fill ring can always receive.
func (l *rawLink) window() uint64 {
	frames := (rawHeader + rawShim + l.payloadRoom() + xdp.RxFrameBytes - 1) / xdp.RxFrameBytes
	return uint64(max(xdp.DefaultRxRing/4/frames, 4))
}

// source sends full packets as fast as the window allows, until the receiver has finished its measurement. The receiver decides,
// because it may begin late on a busy machine.
func (r *rawRun) source() error {
	l := r.link
	buf := l.umem.Arena()[:bwWorkingSet]
	FillPattern(buf, 1)
	n := l.payloadRoom()
	batch := max(r.spec.Raw.batch()/n, 4)
	window := l.window()
	var next, acked uint64
	var starved time.Time
	for off, turn := 0, 0; ; turn++ {
		if turn%clockEvery == 0 && time.Now().After(r.deadline) {
			return fmt.Errorf("the receiver did not report in time that it got all packets: %w", os.ErrDeadlineExceeded)
		}
		credit, enough := r.credit()
		if enough {
			return r.end()
		}
		acked = max(acked, min(credit, next)) // a credit of the previous run may be larger
		built := 0
		for built < batch && next-acked < window && r.pushPiece(next, off, n) {
			next++
			built++
			if off += n; off+n > len(buf) {
				off = 0
			}
		}
		if built > 0 {
			starved = time.Time{}
			if err := l.flush(); err != nil {
				return err
			}
			continue
		}
		l.sock.Complete(nil)
		if err := r.spin(); err != nil {
			return err
		}
		if turn%256 != 0 {
			continue
		}
		if now := time.Now(); starved.IsZero() {
			starved = now
		} else if now.Sub(starved) > resyncAfter {
			acked, starved = next, time.Time{}
		}
	}
}

// pushPiece queues a packet with n bytes at off of the arena, copied or referenced.
func (r *rawRun) pushPiece(seq uint64, off, n int) bool {
	if r.spec.Raw.Refer {
		return r.link.refer(seq, off, n)
	}
	return r.link.push(rawData, seq, r.link.umem.Arena()[off:off+n])
}

// credit returns the highest confirmed packet count after the last call, or 0, and whether the receiver has finished.
func (r *rawRun) credit() (acked uint64, enough bool) {
	descs := r.link.receive()
	if len(descs) == 0 {
		return 0, false
	}
	for rest := descs; len(rest) > 0; {
		var packet []xdp.Desc
		packet, rest = xdp.NextPacket(rest)
		switch kind, seq := r.link.parse(packet); kind {
		case rawCredit:
			acked = max(acked, seq)
		case rawEnough:
			enough = enough || seq == r.id
		}
	}
	r.link.recycle(descs)
	return acked, enough
}

// sink counts and copies received packets, and sends credits. After the measurement, each credit says that it has finished.
func (r *rawRun) sink(b *Baseline) error {
	l := r.link
	buf := make([]byte, bwWorkingSet+l.payloadRoom())
	every := min(creditEvery, l.window()/4)
	begin := time.Now().Add(r.spec.warmUp())
	var started time.Time
	var next, credited uint64
	for off := 0; ; {
		descs := l.receive()
		if len(descs) == 0 {
			if err := r.spin(); err != nil {
				return err
			}
			continue
		}
		var got uint64
		ended := false
		for rest := descs; len(rest) > 0; {
			var packet []xdp.Desc
			packet, rest = xdp.NextPacket(rest)
			kind, seq := l.parse(packet)
			if kind == rawEnd && seq == r.id {
				ended = true
			}
			if kind != rawData {
				continue
			}
			if seq > next {
				r.lost += seq - next
			}
			next = seq + 1
			n := l.copyOut(buf[off:], packet)
			got += uint64(n)
			if off += n; off > bwWorkingSet {
				off = 0
			}
		}
		l.recycle(descs)
		if next-credited >= every {
			credited = next
			l.push(rawCredit, next, nil)
			if b.Seconds > 0 {
				l.push(rawEnough, r.id, nil)
			}
			if err := l.flush(); err != nil {
				return err
			}
		}
		now := time.Now()
		switch {
		case started.IsZero() && now.After(begin):
			started, r.lost = now, 0
		case !started.IsZero() && b.Seconds == 0:
			b.Bytes += got
			if d := now.Sub(started); d >= r.spec.Duration && b.Bytes >= uint64(r.spec.Size) {
				b.Seconds = d.Seconds()
			}
		}
		if ended {
			break
		}
	}
	if b.Seconds == 0 {
		return fmt.Errorf("the sender stopped before %v were over", r.spec.Duration)
	}
	b.Ops = b.Bytes / uint64(r.spec.Size)
	return nil
}
