package nd

import (
	"errors"
	"testing"
)

// Messages and Writes carry an immediate to the peer's result, and regions have the address that the application chose.
func TestImmediate(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	r.join(t, client, server)
	region, err := r.b.CreateMemoryRegion()
	must(t, err)
	memory := make([]byte, 64)
	if err := region.RegisterAt(memory, MRAllowRemoteWrite, ^uint64(0)-8); !errors.Is(err, ErrInvalidParameter) {
		t.Errorf("an address that wraps: %v", err)
	}
	must(t, region.RegisterAt(memory, MRAllowRemoteWrite, 0))
	if at := region.Address(); at != 0 {
		t.Errorf("the region is at %#x", at)
	}
	copy(client.mr.Bytes(), "written")
	for id := range uint64(3) {
		must(t, server.qp.Receive(id, []SGE{server.mr.SGE(0, 64)}))
	}
	list := []SGE{client.mr.SGE(0, 7)}
	must(t, client.qp.SendImmediate(10, list, 0xfeedbeef, 0))
	must(t, client.qp.WriteImmediate(11, list, 5, region.RemoteToken(), 0, 0))
	must(t, client.qp.Send(12, list, OpSolicit))
	for i, want := range []Result{
		{Bytes: 7, HasImmediate: true, Immediate: 0xfeedbeef}, {HasImmediate: true, Solicited: true}, {Bytes: 7, Solicited: true},
	} {
		want.RequestID = uint64(i)
		got := server.result(t)
		want.QueuePairID = got.QueuePairID
		if got != want {
			t.Errorf("receive %d: %+v, want %+v", i, got, want)
		}
	}
	for i, want := range []RequestType{RequestSend, RequestWrite, RequestSend} {
		if got := client.result(t); got.Status != StatusSuccess || got.Type != want || got.RequestID != uint64(10+i) {
			t.Errorf("request %d: %+v", i, got)
		}
	}
	if got := string(memory[5:12]); got != "written" {
		t.Errorf("the peer has %q", got)
	}
	if err := client.qp.SendImmediate(1, nil, 0, 0x40); !errors.Is(err, ErrInvalidParameterN(5)) {
		t.Errorf("an unknown flag of a message: %v", err)
	}
	if err := client.qp.WriteImmediate(1, nil, 0, 0, 0, OpSolicit); !errors.Is(err, ErrInvalidParameterN(7)) {
		t.Errorf("an unknown flag of a Write: %v", err)
	}
	must(t, region.Close())
}
