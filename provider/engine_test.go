package provider

import (
	"bytes"
	"testing"
)

// TestFirstLight runs the basic sequence once: connect, one Write, one Send, one Read, disconnect.
func TestFirstLight(t *testing.T) {
	for _, size := range []int{1408, 9000, 65507} {
		p := newPair(t, size).connect()
		src, dst := p.reg[0].Bytes(), p.reg[1].Bytes()
		for i := range 100000 {
			src[i] = byte(i * 7)
		}
		p.post(0, &listed{SGL: p.sge(0, 0, 50000), Request: Request{Kind: KindWrite, Context: 1, Length: 50000, Addr: p.reg[1].Base() + 9, Token: p.reg[1].Token()}})
		p.runUntilIdle()
		if r := p.result(0); r.Kind != KindWrite || r.Outcome != OutcomeSuccess || r.RequestContext != 1 {
			t.Fatalf("write: %+v", r)
		}
		if !bytes.Equal(dst[9:50009], src[:50000]) {
			t.Fatal("the Write did not arrive")
		}
		if _, o := p.qp[1].PostReceive(2, p.sge(1, 1<<20, 8000), 8000); o != OutcomeSuccess {
			t.Fatal(o)
		}
		p.runUntilIdle()
		p.post(0, &listed{SGL: p.sge(0, 5, 7000), Request: Request{Kind: KindSend, Context: 3, Length: 7000}})
		p.runUntilIdle()
		if r := p.result(0); r.Kind != KindSend || r.Outcome != OutcomeSuccess || r.RequestContext != 3 {
			t.Fatalf("send: %+v", r)
		}
		if r := p.result(1); r.Kind != KindReceive || r.Outcome != OutcomeSuccess || r.RequestContext != 2 || r.Bytes != 7000 {
			t.Fatalf("receive: %+v", r)
		}
		if !bytes.Equal(dst[1<<20:][:7000], src[5:7005]) {
			t.Fatal("the Send did not arrive")
		}
		p.post(0, &listed{SGL: p.sge(0, 2<<20, 40000), Request: Request{Kind: KindRead, Context: 4, Length: 40000, Addr: p.reg[1].Base() + 9, Token: p.reg[1].Token()}})
		p.runUntilIdle()
		if r := p.result(0); r.Kind != KindRead || r.Outcome != OutcomeSuccess || r.RequestContext != 4 {
			t.Fatalf("read: %+v", r)
		}
		if !bytes.Equal(src[2<<20:][:40000], dst[9:40009]) {
			t.Fatal("the Read did not arrive")
		}
		var notified, left, right promise
		_, o := p.ctr[1].NotifyDisconnect(notified.finish)
		p.must(o)
		p.must(p.ctr[0].Disconnect(left.finish))
		p.runUntilIdle()
		notified.must(t, OutcomeSuccess)
		p.must(p.ctr[1].Disconnect(right.finish))
		p.runUntilIdle()
		left.must(t, OutcomeSuccess)
		right.must(t, OutcomeSuccess)
		p.pass(p.eng[0].cfg.Linger * 2)
		for i := range 2 {
			s := p.eng[i].Stats()
			if s.Connections != 0 || s.IllegalTransitions != 0 || s.Retransmits != 0 || s.Lost != 0 {
				t.Errorf("engine %d: %+v", i, s)
			}
		}
	}
}
