package provider

import (
	"testing"
	"time"
)

// noPaths makes the links of the first side refuse every path, or allow paths again.
func (p *pair) noPaths(refuse bool) {
	for i := range 1 + len(p.more[0]) {
		p.queue(0, i).noPath = refuse
	}
}

// If a connection's new engine gets no path, the connection stays with its old engine and path. It moves once the link allows paths
// again.
func TestMoveWithoutAPath(t *testing.T) {
	p := newQueuesPair(t, 1472, 2)
	p.landOn(0, always(0))
	p.landOn(1, always(0))
	p.connect()
	p.moveFrom(0)
	p.noPaths(true)
	p.landOn(0, always(0))
	for round := range 10 {
		p.conn(0).moveTo(p.eng[0])
		p.runUntilIdle()
		p.move(round)
		if home := p.homeOf(0); home != 1 {
			t.Fatalf("the connection went to engine %d without a path", home)
		}
	}
	p.noPaths(false)
	p.conn(0).moveTo(p.eng[0])
	p.runUntilIdle()
	p.move(1)
	if home := p.homeOf(0); home != 0 {
		t.Errorf("the connection is on engine %d, its packets land on 0", home)
	}
	p.disconnect()
}

// The leader keeps a connection that has ended, or frees it at once if the leader has no path. In both cases the peer learns of the
// end.
func TestEndWithoutAPath(t *testing.T) {
	for name, stop := range map[string]func(p *pair){
		"Close":    func(p *pair) { p.ctr[0].Own(func(*Engine) { p.ctr[0].Close() }) },
		"Release":  func(p *pair) { p.qp[0].Own(func(*Engine) { p.qp[0].Release() }) },
		"Shutdown": func(p *pair) { p.more[0][0].Shutdown(); p.eng[0].Shutdown() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newQueuesPair(t, 1472, 2)
			p.landOn(0, always(0))
			p.landOn(1, always(0))
			p.connect()
			p.moveFrom(0)
			var lost promise
			if _, o := p.ctr[1].NotifyDisconnect(lost.finish); o != OutcomeSuccess {
				t.Fatal(o)
			}
			p.noPaths(true)
			stop(p)
			p.pass(time.Second)
			lost.must(t, OutcomeSuccess)
			p.noPaths(false)
			p.ctr[1].Own(func(*Engine) { p.ctr[1].Close() })
			p.gone()
		})
	}
}
