package provider

import "github.com/ndxdp/ndxdp/wire"

// connect establishes the connection between the two queue pairs, and lets both ends take their traffic, which tests look at.
func (p *pair) connect() *pair {
	p.tb.Helper()
	p.establish()
	for side := range p.eng {
		if c := p.conn(side); c != nil {
			c.leaveIdle()
			c.traffic.worked = true
		}
	}
	return p
}

// establish is connect without traffic.
func (p *pair) establish() {
	p.tb.Helper()
	l := p.eng[1].NewListener()
	at, o := l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort + p.connected})
	p.must(o)
	p.ctr[0], p.ctr[1] = p.eng[0].NewConnector(), p.eng[1].NewConnector()
	p.useTLS(l)
	p.must(l.Listen(1))
	p.connected++
	var got, connected, accepted, completed promise
	p.must(l.GetRequest(p.ctr[1], got.finish))
	p.must(p.ctr[0].connect(p.qp[0], wire.Endpoint{IP: pairIP[0]}, at, p.limits[0], connected.finish))
	p.runUntilIdle()
	got.must(p.tb, OutcomeSuccess)
	p.must(p.ctr[1].Accept(p.qp[1], p.limits[1], accepted.finish))
	p.runUntilIdle()
	p.afterAccept()
	connected.must(p.tb, OutcomeSuccess)
	p.must(p.ctr[0].CompleteConnect(completed.finish))
	p.runUntilIdle()
	completed.must(p.tb, OutcomeSuccess)
	accepted.must(p.tb, OutcomeSuccess)
}

// warmedUp prepares a connection whose time-outs are computed from measured round trips.
func (p *pair) warmedUp() *pair {
	for side := range p.eng {
		p.conn(side).rtt.Settle()
	}
	return p
}
