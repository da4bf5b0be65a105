package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// fleet is many connections between the two engines of a pair, in the order in which they were made.
type fleet struct {
	*pair
	listener *Listener
	at       wire.Endpoint
	qps      [2][]*QP
	ctrs     [2][]*Connector
}

// newFleet connects n queue pairs of side 0 with n queue pairs of side 1 through one listener. Each side has one completion queue.
func newFleet(tb testing.TB, n int) *fleet {
	tb.Helper()
	f := &fleet{pair: newPair(tb, 1408)}
	f.useAllFrames() // they are no memory of connections
	f.listener = f.eng[1].NewListener()
	var o Outcome
	f.at, o = f.listener.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort})
	f.must(o)
	f.must(f.listener.Listen(0))
	for i := range f.cq {
		f.cq[i] = NewCQ(1 << 14)
	}
	f.more(n)
	return f
}

// perAddress is how many connections of a fleet come from one address, which has 16384 ephemeral ports.
const perAddress = 12500

// more makes n more connections.
func (f *fleet) more(n int) {
	for range n {
		f.connectOne()
	}
}

func (f *fleet) connectOne() {
	f.tb.Helper()
	for side := range 2 {
		f.qps[side] = append(f.qps[side], f.eng[side].NewQP(QPConfig{
			ReceiveCQ: f.cq[side], InitiatorCQ: f.cq[side], ReceiveDepth: 1, InitiatorDepth: 1, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
		}))
		f.ctrs[side] = append(f.ctrs[side], f.eng[side].NewConnector())
	}
	f.now = f.now.Add(time.Second / 20000) // less than guard.MaxCookies a second
	i := len(f.qps[0]) - 1
	local := wire.Endpoint{IP: pairIP[0]}
	local.IP[14] += byte(i / perAddress)
	var got, connected, accepted, completed promise
	f.must(f.listener.GetRequest(f.ctrs[1][i], got.finish))
	f.must(f.ctrs[0][i].connect(f.qps[0][i], local, f.at, ConnectParams{}, connected.finish))
	f.runUntilIdle()
	got.must(f.tb, OutcomeSuccess)
	f.must(f.ctrs[1][i].Accept(f.qps[1][i], ConnectParams{}, accepted.finish))
	f.runUntilIdle()
	connected.must(f.tb, OutcomeSuccess)
	f.must(f.ctrs[0][i].CompleteConnect(completed.finish))
	f.runUntilIdle()
	completed.must(f.tb, OutcomeSuccess)
	accepted.must(f.tb, OutcomeSuccess)
}

// writeAll posts one small Write on every connection of side 0 and polls the results.
func (f *fleet) writeAll(r *listed) {
	var rs [64]Result
	posted, done := 0, 0
	for done < len(f.qps[0]) {
		// 256 requests are outstanding, as in a large application: the benchmark measures many connections, not a queue of packets.
		for ; posted < len(f.qps[0]) && posted-done < 256; posted++ {
			if _, o := r.post(f.qps[0][posted]); o != OutcomeSuccess {
				f.tb.Fatal(o)
			}
		}
		f.turn()
		done += f.drain(rs[:])
	}
}

// close disconnects all connections from both sides, and fails the test if anything is left.
func (f *fleet) close() {
	f.tb.Helper()
	done := 0
	for i := range f.ctrs[0] {
		for side := range 2 {
			f.must(f.ctrs[side][i].Disconnect(func(o Outcome) {
				if o == OutcomeSuccess {
					done++
				}
			}))
		}
		f.runUntilIdle()
		for side := range 2 {
			f.ctrs[side][i].Close()
			f.qps[side][i].Release()
		}
	}
	f.listener.Close()
	f.pass(time.Minute)
	if done != 2*len(f.ctrs[0]) {
		f.tb.Errorf("%d of %d sides disconnected", done, 2*len(f.ctrs[0]))
	}
	for side, e := range f.eng {
		if left := e.Leftover(); left != "" {
			f.tb.Errorf("side %d: %s", side, left)
		}
	}
}
