package nd

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// wantOneLine checks that an error is one line and says all of these.
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

// A Connect that times out says whether the peer had answered: what to look for depends on it.
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

	// Nor is an answer to one attempt taken for one to the next.
	r.setLink(t, r.pair.B, true)
	must(t, r.pair.AwaitCarrier())
	must(t, r.b.Close())
	silenceAt(t, r.pair.B, r.addr[1])
	err = client.ctr.Connect(t.Context(), client.qp, netip.AddrPortFrom(r.addr[1], 7000), ConnectParams{})
	wantStatus(t, "connect", err, ErrIOTimeout)
	wantOneLine(t, err, "no answer from UDP port 14791 of "+r.addr[1].String())
}
