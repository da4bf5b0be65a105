package cli

import (
	"context"
	"net/netip"
	"strings"
	"testing"
)

// A host name is accepted wherever an address is. Text that is neither is refused without a DNS query.
func TestResolve(t *testing.T) {
	nobody, cancel := context.WithCancel(t.Context())
	cancel() // so that a query fails at once
	for text, want := range map[string]string{
		"192.0.2.7:7000": "192.0.2.7:7000", "[2001:db8::7]:7000": "[2001:db8::7]:7000", "[fe80::1%eth0]:1": "[fe80::1%eth0]:1",
		"192.0.2.7": "", "192.0.2:7000": "", "nowhere": "", ":7000": "", "x:70000": "", "x:http": "", "b d:1": "", "-x:1": "", "a..b:1": "", ".a:1": "",
		strings.Repeat("a", 254) + ":1": "",
	} {
		at, ok, err := ResolveAddrPort(nobody, text)
		if ok != (want != "") || err != nil || ok && at.String() != want {
			t.Errorf("%q: %v, %v, %v, want %q", text, at, ok, err, want)
		}
	}
	if _, ok, err := ResolveAddrPort(nobody, "node7:7000"); !ok || err == nil || !strings.Contains(err.Error(), `no address of "node7"`) {
		t.Errorf("a name: %v, %v", ok, err)
	}
	if a, ok, err := ResolveHost(t.Context(), "localhost"); err != nil || !ok || !a.IsLoopback() {
		t.Errorf("localhost: %v, %v, %v", a, ok, err)
	}
	var flag netip.Addr
	if err := Addr(&flag).Set("localhost"); err != nil || !flag.IsLoopback() {
		t.Errorf("a flag: %v, %v", flag, err)
	}
}
