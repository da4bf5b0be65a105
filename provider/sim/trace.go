package sim

import (
	"fmt"
	"io"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// tracer keeps the newest events, and prints all events if it has a writer.
type tracer struct {
	out  io.Writer
	ring [256]traceEntry
	n    uint64
}

type traceEntry struct {
	at         clock.Time
	who, what  string
	packet     bool
	ackRequest bool
	space      wire.Space
	opcode     wire.Opcode
	size       int
	contents   bool
	message    uint16
	offset     uint32
	number     uint32
	blocks     wire.Flags // ACK, REPORT
	ack        wire.Ack
	id         uint64
	sealed     bool // with the key of generation; its blocks and contents are not to be seen
	generation uint32
}

// add returns the next entry to fill.
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
		e.contents, e.message, e.offset, e.space, e.id = !b.Control(), b.Message(), b.Offset(), b.Space(), b.ConnID()
		e.number, e.ackRequest = b.Number(), b.Flags()&wire.FlagAckReq != 0
		e.blocks = b.Flags() & (wire.FlagAck | wire.FlagReport)
		if e.sealed = b.Secure(); e.sealed {
			e.generation = b.Generation()
			t.print(e)
			return
		}
		at, d := wire.ContentOffset(p)
		if d == wire.DropNone && e.blocks&wire.FlagAck != 0 {
			_, _ = wire.ParseAck(p[wire.BaseHeaderLen:], &e.ack)
		}
		if d == wire.DropNone && len(p) > at && !b.Piece() {
			e.opcode = wire.Opcode(p[at])
		}
	}
	t.print(e)
}

// String returns the entry as one line.
func (e *traceEntry) String() string {
	s := fmt.Sprintf("%12.6f %-9s %s", float64(e.at)/1e9, e.what, e.who)
	if !e.packet {
		return s
	}
	s += fmt.Sprintf(" #%d -> %016x %5d B", e.number, e.id, e.size)
	if e.sealed {
		s += fmt.Sprintf(" sealed %d", e.generation)
	}
	if e.opcode != 0 {
		s += " " + e.opcode.String()
	}
	if e.contents {
		s += fmt.Sprintf(" %s %d+%d", e.space, e.message, e.offset)
	}
	if e.ackRequest {
		s += " ackreq"
	}
	if e.blocks&wire.FlagAck != 0 {
		s += " ack" // without ranges if the packet is sealed
		for _, r := range e.ack.Ranges[:e.ack.N] {
			s += fmt.Sprintf(" %d-%d", e.ack.Largest-r.Last, e.ack.Largest-r.First)
		}
	}
	if e.blocks&wire.FlagReport != 0 {
		s += " report"
	}
	return s
}

// last prints the kept events, oldest first.
func (t *tracer) last(w io.Writer) {
	n := min(t.n, uint64(len(t.ring)))
	for i := t.n - n; i < t.n; i++ {
		fmt.Fprintln(w, &t.ring[i%uint64(len(t.ring))])
	}
}
