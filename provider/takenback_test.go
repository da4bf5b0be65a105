package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/credit"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// If a SEND finds no receive, the receiver drops the packets that it stored behind the SEND, although it acknowledged them. The
// sender retransmits these packets, also if the packet with RNR was lost. No request completes before its bytes are in place.
func TestTakenBackIsSentAgain(t *testing.T) {
	t.Run("acknowledged before", func(t *testing.T) {
		takeBack(t, func(p *commons) bool { return p.conn(1).receives.Wait.State() == credit.None })
	})
	t.Run("acknowledged later", func(t *testing.T) { // most of it is acknowledged together with TAKENBACK
		takeBack(t, func(p *commons) bool { return p.conn(0).traffic.sent.spaces[0].Beyond() == 0 })
	})
}

// takeBack delivers packets of side 1 only while heard returns true, until there is a receive.
func takeBack(t *testing.T, heard func(*commons) bool) {
	t.Helper()
	p := newCommons(t, 1, 16)
	p.use(0)
	const off, n = 64 << 10, 20 * 1344
	p.fill(0, off, n, 7)
	lost := false
	p.link[1].mangle = func(b []byte) bool {
		first := sequenced(b) && !lost
		lost = lost || first
		return !first
	}
	silent := true // the receiver's report about the SEND is lost
	p.link[0].mangle = func([]byte) bool { return !silent || heard(p) }
	p.post(0, p.send(0, 1000))
	p.post(0, p.write(0, off, n))
	for range 1000 {
		p.pass(20 * time.Microsecond)
		if p.conn(1).receives.Wait.State() == credit.Starved {
			break
		}
	}
	if p.conn(1).receives.Wait.State() != credit.Starved || p.eng[1].Stats().Drops[wire.DropNoReceive] < 2 {
		t.Fatalf("nothing was dropped: %+v", p.eng[1].Stats())
	}
	if p.conn(0).traffic.sent.spaces[0].Beyond() == 0 {
		t.Fatal("nothing was acknowledged behind the gap")
	}
	p.offer(1)
	p.turn()
	silent = false
	for range 1000 {
		p.pass(100 * time.Microsecond)
		if done := p.results(0); len(done) > 0 {
			if !p.all(1, off, n, 7) && len(done) > 1 {
				t.Fatal("the WRITE completed before its bytes were in place")
			}
			if len(done) == 2 {
				break
			}
		}
	}
	if !p.all(1, off, n, 7) {
		t.Error("the WRITE is not in place")
	}
	for range 2 { // the first one reveals that the report was lost, the second one acknowledges the repeated report
		p.post(0, p.write(0, 0, 100))
		p.runUntilIdle()
	}
	if p.conn(1).receives.TakenBack() {
		t.Error("TAKENBACK is repeated for ever")
	}
}

// TAKENBACK is repeated until a packet with it is acknowledged. Contents that were retransmitted and arrived meanwhile are not sent
// a third time.
func TestTakenBackIsSentAgainOnce(t *testing.T) {
	p := newCommons(t, 1, 16)
	p.use(0)
	const off, pieces = 64 << 10, 20
	p.loseFirst(1, 1, wire.OpSend)
	p.post(0, p.send(0, 1000))
	p.post(0, p.write(0, off, pieces*1344))
	for range 1000 {
		p.pass(20 * time.Microsecond)
		if p.conn(1).receives.Wait.State() == credit.Starved && p.conn(0).traffic.sent.paused {
			break
		}
	}
	p.offer(1)
	told := 0
	lost := false
	p.link[1].mangle = func(b []byte) bool {
		first := opcode(b) == wire.OpSend && !lost // later packets arrive behind a gap again
		lost = lost || first
		return !first && sequenced(b) // the acknowledgement of the report is lost
	}
	p.link[0].mangle = func([]byte) bool {
		if p.conn(1).receives.TakenBack() {
			told++
		}
		return true
	}
	for range 1000 {
		p.pass(100 * time.Microsecond)
	}
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	if told < 2 {
		t.Errorf("TAKENBACK was sent %d times", told)
	}
	if n := p.conn(0).counters.retransmits; n > 1+1+pieces+1+1 {
		t.Errorf("%d packets were retransmitted of %d", n, 1+pieces)
	}
}

// If a peer sends TAKENBACK in every packet, our side examines only the packets that left between two of them, and none twice.
func TestTakenBackLooksAtEachPacketOnce(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.link[0].mangle = func([]byte) bool { return false }
	p.post(1, p.write(1, 0, 4000))
	p.eng[1].Run(p.now)
	v := p.conn(1)
	f := p.forge(1)
	f.bare()
	takeBack := func(upTo uint64) {
		f.fields.Number++
		f.report = &wire.Report{Flags: wire.ReportTakenBack | wire.ReportRNR, UpTo: uint32(upTo)}
		p.inject(1, f)
		p.eng[1].Run(p.now)
	}
	last := v.traffic.sent.packets.Next() - 1
	takeBack(last - 1)
	before := v.traffic.sent.packets.Packet(last - 1)
	if before.Kind != recovery.Nothing || v.traffic.sent.packets.Packet(last).Kind != recovery.Requests {
		t.Fatalf("%+v was taken back, %+v was not", before, v.traffic.sent.packets.Packet(last))
	}
	before.Kind, before.State = recovery.Requests, recovery.Acked // a second examination would take the packet back
	takeBack(last)
	if before.Kind != recovery.Requests || v.traffic.sent.packets.Packet(last).Kind != recovery.Nothing {
		t.Errorf("%+v was examined again, or %+v was not taken back", before, v.traffic.sent.packets.Packet(last))
	}
}
