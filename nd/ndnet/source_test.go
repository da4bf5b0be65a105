package ndnet

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

// Many dials to one host ask once for the source address. Failures are asked again, and the memory is bounded.
func TestSourceIsRemembered(t *testing.T) {
	m, asked, refused := sourceMemory{known: map[netip.Addr]source{}}, 0, errors.New("no route")
	find := func(to string, err error) (netip.Addr, error) {
		return m.find(netip.MustParseAddrPort(to), func(to netip.AddrPort) (netip.Addr, error) { asked++; return to.Addr().Next(), err })
	}
	if _, err := find("10.0.0.1:1", refused); err != refused {
		t.Error(err)
	}
	for port := range 50 {
		at, err := find(fmt.Sprintf("10.0.0.1:%d", port), nil)
		if must(t, err); at != netip.MustParseAddr("10.0.0.2") {
			t.Fatal(at)
		}
		if s := m.known[netip.MustParseAddr("10.0.0.1")]; port == 0 {
			s.until = s.until.Add(patience)
			m.known[netip.MustParseAddr("10.0.0.1")] = s
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	m.known[netip.MustParseAddr("10.0.0.1")] = source{}
	if _, err := find("10.0.0.1:1", refused); err != refused {
		t.Error("an old answer is used", err)
	}
	for i := range 3 * mostSources {
		_, err := find(fmt.Sprintf("10.1.%d.%d:1", i/256, i%256), nil)
		must(t, err)
	}
	if len(m.known) > mostSources {
		t.Errorf("%d addresses are remembered", len(m.known))
	}
}
