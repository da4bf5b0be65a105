package sim

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// The path back is cut while the ServerHello and the first REJ travel. The client has no keys, and yet its next REQ gets a REJ that it can
// read: the attempt ends long before its time-out.
func TestRefusalAfterTheServerHelloIsLost(t *testing.T) {
	n := NewNetwork(1, Conditions{Delay: 50 * time.Microsecond}, nil)
	a, b := n.AddHost(bulkConfig(1408)), n.AddHost(bulkConfig(1408))
	at := wire.Endpoint{IP: b.IP, Port: 7}
	plan := shakertest.Plan{Hello: 1500, Rest: 1700}
	var listener *provider.Listener
	must := func(o provider.Outcome) {
		if o != provider.OutcomeSuccess {
			t.Fatal(o)
		}
	}
	b.Do(func(e *provider.Engine) {
		listener = e.NewListener()
		_, o := listener.Bind(at)
		must(o)
		must(listener.UseTLS(shakertest.Fixed(false, plan), false))
		must(listener.Listen(1))
	})
	n.cut[[2]*Host{b, a}] = n.now.Add(15 * time.Millisecond)
	ended, outcome := false, provider.OutcomeSuccess
	a.Do(func(e *provider.Engine) {
		k, cq := e.NewConnector(), provider.NewCQ(4)
		must(k.UseTLS(shakertest.Fixed(true, plan)))
		qp := e.NewQP(provider.QPConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 1, InitiatorDepth: 1})
		must(connect(k, qp, wire.Endpoint{IP: a.IP}, at, provider.ConnectParams{}, func(o provider.Outcome) { ended, outcome = true, o }))
	})
	n.After(10*time.Millisecond, func() { b.Do(func(*provider.Engine) { listener.Close() }) })
	if !n.RunUntil(time.Second, func() bool { return ended }) || outcome != provider.OutcomeRefused {
		t.Errorf("ended %v with %v; failures %v", ended, outcome, n.broken)
	}
	if n.Happened[Partition] < 4 { // two packets of the ServerHello, at least one of generation 0, REJ
		t.Errorf("%d packets were lost", n.Happened[Partition])
	}
}
