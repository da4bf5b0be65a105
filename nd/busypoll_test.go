package nd

import (
	"strings"
	"testing"
)

// TestBusyPollIsToldAndHarmless: an adapter that was asked to poll a driver which cannot be polled says so and works as any other.
func TestBusyPollIsToldAndHarmless(t *testing.T) {
	r := newRigOf(t, 1500, AdapterConfig{Datapath: DatapathNative, BusyPoll: true})
	if i := r.a.Datapath(); i.BusyPoll || !strings.Contains(i.Reason, "no busy polling") {
		t.Errorf("%+v", i)
	}
	client, server := r.connect(t, 4096)
	copy(client.mr.Bytes(), "over native XDP")
	if err := client.qp.Write(1, []SGE{client.mr.SGE(0, 15)}, server.mr.Address(), server.mr.RemoteToken(), 0); err != nil {
		t.Fatal(err)
	}
	if got := client.result(t); got.Status != StatusSuccess || string(server.mr.Bytes()[:15]) != "over native XDP" {
		t.Errorf("%+v, %q", got, server.mr.Bytes()[:15])
	}
}
