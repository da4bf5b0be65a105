package provider

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// linkMemory names the memory of side 0 to its link, which can send from it without a copy.
const linkMemory = 1 << 40

// tally counts the packets and bytes that one side gives to its link.
type tally struct {
	packets, calls, bytes, framed int // framed: bytes copied into frames; all other bytes are sent from application memory
}

// counted is a pair with a tally for each side.
type counted struct {
	*pair
	sides [2]tally
}

func newCounted(t *testing.T, maxPacket int) *counted {
	p := &counted{pair: newPair(t, maxPacket)}
	p.useAllFrames()
	var err error
	p.reg[0], err = p.mem[0].RegisterLink(make([]byte, 4<<20), linkMemory, RightRemoteRead|RightRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	p.connect()
	for side := range 2 {
		to, s := p.link[1-side], &p.sides[side]
		to.wake = func() { s.calls++ }
		to.router = func(t *TxPacket) (ce, ok bool) {
			s.packets++
			s.bytes += t.Len
			for _, f := range t.Frags[:t.N] {
				if f.ID < pipeFrames {
					s.framed += len(f.Data)
				}
			}
			return false, true
		}
	}
	return p
}

// countedCase is an operation as an application performs it, until it completes.
type countedCase struct {
	name    string
	ops     int // operations with payload
	payload int // bytes of each operation
	do      func(p *counted) func()
}

func countedCases() (all []countedCase) {
	for _, size := range []uint32{64, 4096, 64 << 10, 1 << 20} {
		n := int(size)
		all = append(
			all,
			countedCase{fmt.Sprintf("write %d", n), 1, n, func(p *counted) func() {
				return p.poster(0, p.write(0, 0, size))
			}},
			countedCase{fmt.Sprintf("send %d", n), 1, n, func(p *counted) func() {
				post, into := p.poster(0, p.send(0, size)), p.sge(1, 0, size)
				return func() {
					_, _ = p.qp[1].PostReceive(0, into, size)
					post()
				}
			}},
			countedCase{fmt.Sprintf("read %d", n), 1, n, func(p *counted) func() {
				return p.poster(0, p.read(0, size))
			}},
		)
	}
	return append(
		all,
		countedCase{"write 64 and answer", 2, 64, func(p *counted) func() {
			requests := [2]*listed{p.write(0, 0, 64), p.write(1, 0, 64)}
			return func() {
				for side, r := range requests {
					p.post(side, r)
					p.eng[side].Run(p.now)
					p.eng[1-side].Run(p.now)
				}
			}
		}},
		countedCase{"16 connections read 65536", 16, 64 << 10, func(p *counted) func() { return p.together(16, 64<<10) }},
		countedCase{"128 connections read 65536", 128, 64 << 10, func(p *counted) func() { return p.together(128, 64<<10) }},
		countedCase{"connect and close", 1, 0, func(p *counted) func() { return p.comeAndGo }},
		countedCase{"32 writes of 64 in a list", 32, 64, func(p *counted) func() {
			r := p.write(0, 0, 64)
			return func() {
				for i := range 32 {
					r.Flags = FlagSilentSuccess | FlagDefer
					if i == 31 {
						r.Flags = 0
					}
					p.post(0, r)
				}
				p.runUntilIdle()
			}
		}},
	)
}

// another makes two queue pairs for the next connection.
func (p *counted) another() {
	for side, e := range p.eng {
		p.qp[side] = e.NewQP(QPConfig{ReceiveCQ: p.cq[side], InitiatorCQ: p.cq[side], ReceiveDepth: 4, InitiatorDepth: 4, MaxReceiveSGE: 1, MaxInitiatorSGE: 1})
	}
}

// together makes n connections in all, each of which reads size bytes at once. The answers of 128 connections overflow the receive ring,
// which has 1024 entries.
func (p *counted) together(n int, size uint32) func() {
	first := []*QP{p.qp[0]}
	for range n - 1 {
		p.another()
		p.connect()
		first = append(first, p.qp[0])
	}
	r := p.read(0, size)
	return func() {
		for _, qp := range first {
			if _, o := r.post(qp); o != OutcomeSuccess {
				p.tb.Fatalf("post: %v", o)
			}
		}
		for p.runUntilIdle(); slices.ContainsFunc(first, func(qp *QP) bool { return qp.Outstanding() > 0 }); p.runUntilIdle() {
			p.now = p.nextDeadline() // some wait for an acknowledgement that leaves after a delay
		}
	}
}

// comeAndGo connects two new queue pairs, and ends their connection from both sides.
func (p *counted) comeAndGo() {
	p.another()
	p.connect()
	for side := range p.ctr {
		p.must(p.ctr[side].Disconnect(func(Outcome) {}))
		p.runUntilIdle()
	}
	for side := range p.qp {
		p.qp[side].Release()
	}
}

// poster posts r and waits until it completes.
func (p *counted) poster(side int, r *listed) func() {
	return func() {
		p.post(side, r)
		p.runUntilIdle()
	}
}

// TestCounts compares the cost of operations with a table. Virtual time makes the counts exact: packets, calls of the link (each is
// a system call), bytes beside the payload, copies of each payload byte on both sides, allocations. -update rewrites the table; a
// change of the table needs a decision.
func TestCounts(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "packet\toperation\tpackets out\tback\tcalls out\tback\theader bytes\tcopies\tallocations\t")
	for _, maxPacket := range []int{1472, 8972, 64972} {
		for _, c := range countedCases() {
			p := newCounted(t, maxPacket)
			var rs [1024]Result
			do := c.do(p)
			const warm, measured = 128, 32
			for range warm {
				do()
				p.drain(rs[:])
			}
			p.sides = [2]tally{}
			for range measured {
				do()
				p.drain(rs[:])
			}
			a, b := p.sides[0], p.sides[1]
			ops, payload := float64(measured*c.ops), float64(measured*c.ops*c.payload)
			per := func(n int) float64 { return float64(n) / ops }
			headers := float64(a.bytes+b.bytes) - payload
			copies := "-"
			if payload > 0 {
				copies = fmt.Sprintf("%.3f", (float64(a.framed+b.framed)-headers)/payload+1)
			}
			allocs := "-" // a connection allocates, and how often depends on how tables grow
			if payload > 0 {
				allocs = fmt.Sprintf("%.0f", testing.AllocsPerRun(measured, func() {
					do()
					p.drain(rs[:])
				}))
			}
			fmt.Fprintf(w, "%d\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t%s\t%s\t\n", maxPacket, c.name,
				per(a.packets), per(b.packets), per(a.calls), per(b.calls), headers/ops, copies, allocs)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	testhelp.Golden(t, "what operations cost", "testdata/counts.golden", out.Bytes(), *update)
}
