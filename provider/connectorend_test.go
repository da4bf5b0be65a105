package provider

import (
	"fmt"
	"testing"
)

// The table of connectors without a connection: for each state and each event it has the next state, the outcome of the pending
// request, and the outcome for calls that wait for the end. No other state or outcome occurs.
func TestConnectorEnds(t *testing.T) {
	const nothing = Outcome(255)
	events := map[string]func(k *Connector){
		"peer disconnected": (*Connector).onPeerDisconnected,
		"silent":            func(k *Connector) { k.onLost(OutcomeIOTimeout) },
		"lost":              func(k *Connector) { k.onLost(OutcomeCanceled) },
		"released":          func(k *Connector) { k.queuePairReleased(true) },
		"attempt released":  func(k *Connector) { k.queuePairReleased(false) },
		"canceled":          (*Connector).CancelPending,
	}
	for _, c := range []struct {
		event             string
		from, to          ConnectorState
		finished, noticed Outcome
	}{
		{"peer disconnected", CtrEstablished, CtrPeerGone, nothing, OutcomeSuccess},
		{"peer disconnected", CtrPeerGone, CtrPeerGone, nothing, nothing},
		{"peer disconnected", CtrDisconnecting, CtrDone, OutcomeSuccess, OutcomeSuccess},
		{"silent", CtrEstablished, CtrLost, nothing, OutcomeSuccess},
		{"silent", CtrPeerGone, CtrLost, nothing, OutcomeSuccess},
		{"silent", CtrDisconnecting, CtrDone, OutcomeIOTimeout, OutcomeSuccess},
		{"lost", CtrDisconnecting, CtrDone, OutcomeAborted, OutcomeSuccess},
		{"released", CtrEstablished, CtrDone, nothing, OutcomeCanceled},
		{"released", CtrPeerGone, CtrDone, nothing, OutcomeCanceled},
		{"released", CtrDisconnecting, CtrDone, OutcomeCanceled, OutcomeSuccess},
		{"attempt released", CtrConnecting, CtrDone, OutcomeCanceled, nothing},
		{"attempt released", CtrAccepted, CtrDone, OutcomeCanceled, nothing},
		{"attempt released", CtrCompleting, CtrDone, OutcomeCanceled, nothing},
		{"attempt released", CtrAccepting, CtrDone, OutcomeCanceled, nothing},
		{"canceled", CtrConnecting, CtrDone, OutcomeCanceled, nothing},
		{"canceled", CtrAccepted, CtrAccepted, nothing, nothing},
		{"canceled", CtrEstablished, CtrEstablished, nothing, nothing},
		{"canceled", CtrDisconnecting, CtrDone, OutcomeCanceled, OutcomeSuccess},
	} {
		t.Run(fmt.Sprintf("%s %v", c.event, c.from), func(t *testing.T) {
			finished, noticed := nothing, nothing
			k := &Connector{state: c.from, pending: func(o Outcome) { finished = o }}
			k.notify.Add(func(o Outcome) { noticed = o })
			events[c.event](k)
			if k.state != c.to || finished != c.finished || noticed != c.noticed {
				t.Errorf("%v, the request %d, waiters %d", k.state, finished, noticed)
			}
		})
	}
}
