package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/wire"
)

// watchJoins counts, for each side, the arriving packets with contents that may and may not be part of a GSO batch.
func (p *pair) watchJoins() *[2]struct{ joins, alone, control int } {
	var seen [2]struct{ joins, alone, control int }
	for side, end := range p.link {
		end.router = func(t *TxPacket) (ce, ok bool) {
			s := &seen[side]
			switch {
			case t.Joins && !sequenced(t.Frags[0].Data):
				s.control++
			case t.Joins:
				s.joins++
			case sequenced(t.Frags[0].Data):
				s.alone++
			}
			return false, true
		}
	}
	return &seen
}

// Packets with contents leave in GSO batches only if both sides use kernel sockets and said so in the handshake (PROTOCOL §7.1,
// §11).
func TestRunsAreAgreed(t *testing.T) {
	for _, c := range []struct {
		name  string
		runs  bool
		old   int // the side that knows no features; -1 for none
		op    wire.Opcode
		wants bool
	}{
		{"both", true, -1, 0, true},
		{"no sockets", false, -1, 0, false},
		{"the caller does not", true, 0, wire.CtlREQ, false},
		{"the called does not", true, 1, wire.CtlREP, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTunedPair(t, 1408, 1, Config{Runs: c.runs})
			if c.old >= 0 {
				p.link[1-c.old].mangle = stripFeatures(c.op)
			}
			seen := p.watchJoins()
			p.connect()
			p.move(0)
			sender := 0
			if c.old == 0 {
				sender = 1
			}
			s := seen[1-sender]
			if s.control > 0 || c.wants != (s.joins > 0) || c.wants != (s.alone == 0) {
				t.Errorf("side %d got %+v, want runs: %v", 1-sender, s, c.wants)
			}
		})
	}
}

// If a path loses GSO batches but carries single packets, the sender uses single packets after one time-out.
func TestRunsThatAreLost(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{Runs: true}).connect()
	p.pattern(60 * 1344)
	p.link[1].router = func(t *TxPacket) (ce, ok bool) { return false, !t.Joins }
	start := p.now
	p.post(0, p.write(0, 0, 60*1344))
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
	s := p.eng[0].Stats()
	if s.RunsPaused != 1 || s.Timeouts != 1 {
		t.Errorf("runs paused %d times, %d time-outs", s.RunsPaused, s.Timeouts)
	}
	if took := p.now.Sub(start); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Full segments in a GSO batch have equal lengths and carry no blocks, so that they do not end the batch. This holds on the bulk
// path and at the ND port, also if both sides send and have acknowledgements to send. One packet in some hundred may have a block,
// so that the peer can forget ranges.
func TestRunsAreOfOneLength(t *testing.T) {
	const maxPacket = 1408
	whole := packet.RunSize(maxPacket, 0)
	for _, c := range []struct {
		name   string
		cfg    Config
		length int
		ends   int // shorter packets of a message: the first and the last one of a very long message, otherwise only the last
	}{{"lane", Config{BulkPort: bulkPort}, 1 << 20, 2}, {"ND port", Config{Runs: true}, 1 << 20, 2}, {"short message", Config{Runs: true}, 255 << 10, 1}} {
		t.Run(c.name, func(t *testing.T) {
			length := c.length
			p := newTunedPair(t, maxPacket, 1, c.cfg).connect()
			for side := range 2 { // confirms the bulk path and the packet size
				p.post(side, p.write(side, 0, uint32(length)))
				p.runUntilIdle()
				p.outcomes(side, OutcomeSuccess)
			}
			var full, blocks, short [2]int
			for side, end := range p.link {
				end.router = func(tx *TxPacket) (ce, ok bool) {
					b := tx.Frags[0].Data
					switch {
					case !tx.Joins || !sequenced(b):
					case tx.Len > whole:
						t.Errorf("a packet of %d bytes is in a run of %d", tx.Len, whole)
					case tx.Len == whole:
						full[side]++
					case wire.BaseHeader(b).Flags()&wire.FlagAck != 0 && wire.BaseHeader(b).Piece() && wire.BaseHeader(b).Flags()&wire.FlagEnd == 0:
						blocks[side]++
					default:
						short[side]++
					}
					return false, true
				}
			}
			for side := range 2 {
				p.post(side, p.write(side, 0, uint32(length)))
			}
			p.pass(time.Second)
			for side := range 2 {
				p.outcomes(side, OutcomeSuccess)
				n := full[side]
				if n < length/maxPacket*9/10 || short[side] > c.ends {
					t.Errorf("side %d got %d whole packets and %d shorter ones", side, n, short[side])
				}
				if least, most := n/blocksEvery-1, n/blocksEvery+1; blocks[side] < least || blocks[side] > most {
					t.Errorf("side %d got %d blocks inside of messages, want %d to %d", side, blocks[side], least, most)
				}
			}
		})
	}
}

// Lists of small Writes fill packets of equal length. Only the last packet is shorter, and it carries the acknowledgement.
func TestSmallWritesMakeOneRun(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{Runs: true}).connect().warmedUp()
	p.stream(1 << 20) // finds the packet size
	const n, each = 200, 64 + wire.WriteLen
	whole := wire.BaseHeaderLen + (packet.RunSize(1408, 0)-wire.BaseHeaderLen)/each*each
	for range 3 {
		p.post(1, p.write(1, 0, 64)) // has to be acknowledged
		p.turn()
		var lengths []int
		blocks := 0
		p.link[1].router = func(tx *TxPacket) (ce, ok bool) {
			if b := tx.Frags[0].Data; sequenced(b) {
				lengths = append(lengths, tx.Len)
				if wire.BaseHeader(b).Flags()&wire.FlagAck != 0 {
					blocks++
				}
			}
			return false, true
		}
		for range n {
			p.post(0, p.write(0, 0, 64))
		}
		p.runUntilIdle()
		p.results(0)
		p.outcomes(1, OutcomeSuccess)
		for i, got := range lengths {
			if i < len(lengths)-1 && got != whole {
				t.Errorf("packet %d of %d has %d bytes, want %d", i, len(lengths), got, whole)
			}
		}
		if blocks != 1 || len(lengths) < n*each/whole {
			t.Errorf("%d of %d packets have blocks", blocks, len(lengths))
		}
	}
}

// The packet that begins a message carries the pending acknowledgement, and its first segment fills the remaining space.
func TestBeginningsHaveBlocks(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{Runs: true}).connect().warmedUp()
	p.stream(1 << 20)
	p.post(1, p.write(1, 0, 64)) // has to be acknowledged
	p.turn()
	var first []byte
	p.link[1].router = func(tx *TxPacket) (ce, ok bool) {
		if b := tx.Frags[0].Data; first == nil && sequenced(b) {
			first = append(first, b...)
		}
		return false, true
	}
	p.post(0, p.write(0, 0, 100<<10))
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
	if h := wire.BaseHeader(first); h.Flags()&wire.FlagAck == 0 || h.Offset() != 0 {
		t.Errorf("the first packet, at byte %d, has flags %x", h.Offset(), h.Flags())
	}
}

// If data leave in GSO batches without blocks, a requested acknowledgement does not wait for data. A small message of the peer,
// beside the peer's long message, is acknowledged in the poll in which it arrives.
func TestAcknowledgedBesideRuns(t *testing.T) {
	for _, c := range []struct {
		name string
		max  int
		cfg  Config
	}{{"ND port", 8960, Config{Runs: true}}, {"lane", 1408, Config{BulkPort: bulkPort}}, {"ND port, 1408", 1408, Config{Runs: true}}} {
		t.Run(c.name, func(t *testing.T) {
			p := newTunedPair(t, c.max, 1, c.cfg).connect()
			for range 4 { // confirms the bulk path and opens the window
				for side := range 2 {
					p.post(side, p.write(side, 0, 4<<20))
					p.runUntilIdle()
					p.outcomes(side, OutcomeSuccess)
				}
			}
			for range 8 {
				p.post(1, p.write(1, 0, 4<<20))
			}
			for range 20 {
				p.turn()
			}
			waited, told := 0, false
			p.link[0].router = func(tx *TxPacket) (ce, ok bool) {
				b := tx.Frags[0].Data
				told = told || wire.BaseHeader(b).Flags()&wire.FlagAck != 0
				if !told && sequenced(b) {
					waited += tx.Len
				}
				return false, true
			}
			most := 0
			for range 10 {
				p.post(0, p.write(0, 0, 64))
				for waited, told = 0, false; len(p.results(0)) == 0; {
					p.turn()
				}
				most = max(most, waited)
			}
			if most > 256<<10 {
				t.Errorf("%d bytes of the peer's message left before an acknowledgement", most)
			}
			p.pass(time.Second)
		})
	}
}
