package sim

import (
	"fmt"
	"io"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// tracer keeps the last events, and prints all of them when there is somewhere to print to.
type tracer struct {
	out  io.Writer
	ring [256]traceEntry
	n    uint64
}

type traceEntry struct {
	at         clock.Time
	who, what  string
	packet     bool
	resent     bool
	ackRequest bool
	space      wire.Space
	opcode     wire.Opcode
	ops, size  int
	psn        uint32
	id         uint64
	next       [wire.NumSpaces]wire.PSN
}

// add returns the entry to fill.
func (t *tracer) add(at clock.Time, what, who string) *traceEntry {
	e := &t.ring[t.n%uint64(len(t.ring))]
	t.n++
	*e = traceEntry{at: at, what: what, who: who}
	return e
}

func (t *tracer) print(e *traceEntry) {
	if t.out != nil {
		fmt.Fprintln(t.out, e)
	}
}

func (t *tracer) note(at clock.Time, what, who string) { t.print(t.add(at, what, who)) }

func (t *tracer) packet(at clock.Time, h *Host, what string, p []byte) {
	e := t.add(at, what, h.name)
	e.packet, e.size = true, len(p)
	if b, d := wire.ParseBaseHeader(p); d == wire.DropNone {
		e.ops, e.psn, e.space, e.id = b.OpCount(), uint32(b.PSN()), b.Space(), b.ConnID()
		e.next = [wire.NumSpaces]wire.PSN{b.NextPSN(0), b.NextPSN(1)}
		e.resent, e.ackRequest = b.Flags()&wire.FlagRTX != 0, b.Flags()&wire.FlagAckReq != 0
		if len(p) > wire.ControlOffset {
			e.opcode = wire.Opcode(p[wire.ControlOffset])
		}
	}
	t.print(e)
}

// String prints one line.
func (e *traceEntry) String() string {
	s := fmt.Sprintf("%12.6f %-9s %s", float64(e.at)/1e9, e.what, e.who)
	if !e.packet {
		return s
	}
	s += fmt.Sprintf(" -> %016x %5d B %s", e.id, e.size, e.opcode)
	if e.ops > 0 {
		s += fmt.Sprintf(" x%d %s psn %d", e.ops, e.space, e.psn)
	}
	if e.resent {
		s += " again"
	}
	if e.ackRequest {
		s += " ackreq"
	}
	return s + fmt.Sprintf(" next %d/%d", e.next[0], e.next[1])
}

// last prints the newest events, oldest first.
func (t *tracer) last(w io.Writer) {
	n := min(t.n, uint64(len(t.ring)))
	for i := t.n - n; i < t.n; i++ {
		fmt.Fprintln(w, &t.ring[i%uint64(len(t.ring))])
	}
}
