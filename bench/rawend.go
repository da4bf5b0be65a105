package bench

import (
	"time"

	"github.com/ndxdp/ndxdp/xdp"
)

// endPatience bounds the repetition of a run's end. A receiver that has ended, and whose answers were lost, does not answer again.
const endPatience = time.Second

// end tells the peer to stop, repeatedly until it confirms, because nothing is reliable here: after a stream, this side's transmit
// ring and the receiver's ring may be full.
func (r *rawRun) end() error {
	l := r.link
	began := time.Now()
	again := began
	for now := began; now.Sub(began) < endPatience && r.ctx.Err() == nil; now = time.Now() {
		if now.After(again) {
			again = now.Add(resyncAfter)
			l.push(rawEnd, r.id, nil)
			if err := l.flush(); err != nil {
				return err
			}
		}
		l.sock.Complete(nil)
		descs := l.receive()
		heard := r.endIn(descs)
		l.recycle(descs)
		if heard {
			return nil
		}
	}
	return r.ctx.Err()
}

// endIn reports whether packets contain the end of this run. End packets of the previous run do not count.
func (r *rawRun) endIn(descs []xdp.Desc) (found bool) {
	for rest := descs; len(rest) > 0; {
		var packet []xdp.Desc
		packet, rest = xdp.NextPacket(rest)
		kind, seq := r.link.parse(packet)
		found = found || kind == rawEnd && seq == r.id
	}
	return found
}

// answerEnd confirms the end to the sender.
func (r *rawRun) answerEnd() error {
	r.link.sock.Complete(nil)
	for range 3 {
		r.link.push(rawEnd, r.id, nil)
	}
	return r.link.flush()
}
