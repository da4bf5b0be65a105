package ndk

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// If an event happened before Close, and its callback would run after it, the callback does not run.
func TestEventBehindACloseIsNotTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, server := r.connected(t)
	busy, release := make(chan struct{}), make(chan struct{})
	_, s := r.a.CreatePD(func(_ any, _ Status, pd *PD) { // blocks the adapter's callbacks
		close(busy)
		<-release
		pd.Close(nil, nil)
	}, nil)
	want(t, "create", s, StatusPending)
	receive(t, "callback", busy)
	server.disconnect(t)
	eventually(t, "the peer is gone", func() (gone bool) {
		client.ctr.k.Own(func(*provider.Engine) { gone = client.ctr.k.State() == provider.CtrPeerGone })
		return gone
	})
	over := make(chan struct{})
	want(t, "close", client.ctr.Close(func(any) { close(over) }, nil), StatusPending)
	close(release)
	receive(t, "close", over)
	client.ctr = nil
	if len(client.gone) != 0 {
		t.Error("the callback of the event ran")
	}
}

// A region is initialized for fast registration once.
func TestFastRegistrationIsReadiedOnce(t *testing.T) {
	t.Parallel()
	e := newEnd(t, newRig(t).a, 64)
	m, s := e.pd.CreateMR(true, nil, nil)
	created(t, m, s)
	defer closed(t, m.Close)
	want(t, "initialize", m.InitializeFastRegister(1, false, nil, nil), StatusSuccess)
	want(t, "again", m.InitializeFastRegister(2, true, nil, nil), StatusInvalidDeviceRequest)
}
