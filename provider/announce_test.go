package provider

import (
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// announcing is a meeting whose listener announces its requests to the application.
type announcing struct {
	*meeting
	told []*Connector // the announced requests of the passive side, in order of arrival
}

func newAnnouncing(t *testing.T, backlog int) *announcing {
	a := &announcing{meeting: newMeeting(t, backlog)}
	a.l.OnRequest(func(k *Connector) { a.told = append(a.told, k) })
	return a
}

// ask makes another connection attempt. It returns the connector and the promise of its outcome.
func (a *announcing) ask() (*Connector, *promise) {
	a.tb.Helper()
	k, connected := a.eng[0].NewConnector(), &promise{}
	a.must(k.connect(a.queuePair(0), wire.Endpoint{IP: pairIP[0]}, a.at, a.limits[0], connected.finish))
	a.runUntilIdle()
	return k, connected
}

func (a *announcing) queuePair(side int) *QP {
	return a.eng[side].NewQP(QPConfig{ReceiveCQ: a.cq[side], InitiatorCQ: a.cq[side], ReceiveDepth: 1, InitiatorDepth: 1})
}

// If a listener announces requests, its backlog bounds the unanswered ones. Every kind of answer frees a place in the backlog.
func TestAnnouncedRequestsCountAgainstTheBacklog(t *testing.T) {
	answers := map[string]func(a *announcing, active, passive *Connector){
		"accept": func(a *announcing, _, passive *Connector) {
			a.must(passive.Accept(a.queuePair(1), a.limits[1], func(Outcome) {}))
		},
		"reject":            func(a *announcing, _, passive *Connector) { a.must(passive.Reject(nil)) },
		"close":             func(_ *announcing, _, passive *Connector) { passive.Close() },
		"the peer gives up": func(_ *announcing, active, _ *Connector) { active.Close() },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			const backlog = 3
			a := newAnnouncing(t, backlog)
			var active []*Connector
			for range backlog {
				k, connected := a.ask()
				active = append(active, k)
				if connected.times != 0 {
					t.Fatal("an attempt within the backlog ended")
				}
			}
			for i := range active {
				_, tooMany := a.ask()
				tooMany.must(t, OutcomeRefused)
				if want := backlog + i; len(a.told) != want {
					t.Fatalf("%d requests were announced, want %d", len(a.told), want)
				}
				answer(a, active[i], a.told[i])
				a.runUntilIdle()
				if _, fits := a.ask(); fits.times != 0 || len(a.told) != backlog+i+1 {
					t.Fatalf("no room after %d answers: %d requests were announced", i+1, len(a.told))
				}
			}
			if n := a.eng[1].Stats().Drops[wire.DropBacklog]; n != backlog {
				t.Errorf("%d requests counted as beyond the backlog, want %d", n, backlog)
			}
			for _, k := range a.told {
				k.Close()
			}
			a.runUntilIdle()
			a.l.Close()
			a.clean()
			if a.l.announced != 0 {
				t.Errorf("%d requests still count", a.l.announced)
			}
		})
	}
}

// A listener that announces requests demands a cookie once half of its backlog is full, and not before.
func TestAnnouncingListenerAsksForCookies(t *testing.T) {
	a := newAnnouncing(t, 8)
	for asked := range 8 {
		want := uint64(0)
		if asked > 4 {
			want = uint64(asked - 4)
		}
		a.ask()
		if s := a.eng[1].Stats(); s.CookiesSent != want || len(a.told) != asked+1 {
			t.Fatalf("with %d requests waiting, %d cookies were sent and %d requests announced; want %d and %d",
				asked, s.CookiesSent, len(a.told), want, asked+1)
		}
	}
}
