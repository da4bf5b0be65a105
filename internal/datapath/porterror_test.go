package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
)

// TestPortErrorNamesTheRemedyOfItsCause: an address that the kernel does not allow to be used yet is not reported as a port in use.
func TestPortErrorNamesTheRemedyOfItsCause(t *testing.T) {
	cfg := plan.Config{Address: netip.MustParseAddr("fd00::1"), UDPPort: 14791}
	for errno, want := range map[error]string{unix.EADDRINUSE: "end the program that uses it", unix.EADDRNOTAVAIL: "tentative", unix.EMFILE: "too many open files"} {
		text := portError(fmt.Errorf("open a UDP socket: %w", errno), cfg).Error()
		if other := errno != unix.EADDRINUSE && strings.Contains(text, "end the program"); other || !strings.Contains(text, want) {
			t.Errorf("%v: %s", errno, text)
		}
	}
}
