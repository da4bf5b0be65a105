package nd

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// wantOneLine checks that an error is one line and contains all of these.
func wantOneLine(t testing.TB, err error, say ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	text := err.Error()
	if strings.ContainsAny(text, "\n\r") {
		t.Errorf("more than one line: %q", text)
	}
	if !strings.HasPrefix(text, "nd: ") {
		t.Errorf("%q does not say whose error it is", text)
	}
	for _, s := range say {
		if !strings.Contains(text, s) {
			t.Errorf("%q does not say %q", text, s)
		}
	}
	t.Log(text)
}

func TestErrorIsOneLine(t *testing.T) {
	err := &Error{Op: "open adapter", Status: ErrDeviceNotReady, Err: errors.Join(errors.New("this failed"), errors.New("and that"))}
	wantOneLine(t, err, "open adapter", "this failed; and that", "ND_DEVICE_NOT_READY")
	if !errors.Is(err, ErrDeviceNotReady) {
		t.Error("the status is lost")
	}
}

func TestStatusNames(t *testing.T) {
	for s, text := range statusText {
		if s.Name() != text[0] || !strings.Contains(s.Error(), text[1]) || s.Failed() != (s&0x80000000 != 0) {
			t.Errorf("%#x: %s, %s", uint32(s), s.Name(), s)
		}
	}
	if n := ErrInvalidParameterN(4); n != 0xC00000F2 || n.Name() != "ND_INVALID_PARAMETER_4" {
		t.Errorf("%#x %s", uint32(n), n.Name())
	}
	for o, s := range statusOf {
		if s == StatusSuccess != (o == 0) {
			t.Errorf("outcome %v is %s", o, s.Name())
		}
	}
}

// The error of a Connect that times out says whether the peer had answered, because the remedy depends on it.
func TestConnectTimeoutSaysWhetherThePeerAnswered(t *testing.T) {
	t.Parallel()
	r := newImpatientRig(t)
	client, server := r.ends(t)
	connected := r.pendingConnect(t, client, server)
	eventually(t, "the peer's answer", func() (yes bool) {
		client.ctr.do(func(*provider.Engine) { yes = client.ctr.k.Answered() })
		return yes
	})
	r.setLink(t, r.pair.B, false)
	err := finish(t, "connect", connected)
	wantStatus(t, "connect", err, ErrIOTimeout)
	wantOneLine(t, err, "UDP port 14791 of "+r.addr[1].String()+" answered and then fell silent", "connect again")

	// An answer to one attempt does not count for the next attempt.
	r.setLink(t, r.pair.B, true)
	must(t, r.pair.AwaitCarrier())
	must(t, r.b.Close())
	silenceAt(t, r.pair.B, r.addr[1])
	err = client.ctr.Connect(t.Context(), client.qp, netip.AddrPortFrom(r.addr[1], 7000), ConnectParams{})
	wantStatus(t, "connect", err, ErrIOTimeout)
	wantOneLine(t, err, "no answer from UDP port 14791 of "+r.addr[1].String())
}

// The String methods return one readable line.
func TestStrings(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{
			DatapathInfo{Interface: "eth0", Driver: "veth", MTU: 1500, Queues: 1, Datapath: DatapathTCX, Reason: "asked for", BulkPort: 4000},
			"eth0 (driver veth, MTU 1500, receive queues 1): datapath tcx, asked for, bulk path on UDP port 4000",
		},
		{Result{Type: RequestReceive, RequestID: 7, Bytes: 3}, "receive 7: success (ND_SUCCESS), 3 bytes"},
		{Result{Type: RequestWrite, RequestID: 8, Status: ErrCanceled}, "write 8: canceled (ND_CANCELED)"},
		{RemoteMemory{Address: 0x1000, Token: 7, Length: 64}, "64 bytes at 0x1000"},
		{SGE{Buffer: make([]byte, 5), Token: 9}, "5 bytes"},
		{NotifySolicited, "solicited"},
		{NotifyType(9), "unknown event 9"},
		{MRAllowRemoteWrite | MRAllowRemoteRead, "remote write|remote read"},
		{MRFlags(0), "0x0"},
		{OpInline | OpDefer | 0x1000, "inline|defer|0x1000"},
		{AdapterInOrderDMA | AdapterCQResize, "in-order DMA|CQ resize"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if text := (ConnectionInfo{State: "open", LimitedBy: "application"}).String(); !strings.Contains(text, "open") || strings.Contains(text, "\n") {
		t.Errorf("%q", text)
	}
}
