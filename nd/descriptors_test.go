package nd

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// A process without descriptors can take no ND port, which is not said to be another one's; once it has some it can. Other tests wait meanwhile.
func TestBindWithoutDescriptors(t *testing.T) {
	here := netlabtest.Loopback()[0]
	a, err := OpenAdapter(AdapterConfig{Address: here, UDPPort: netlabtest.FreePort(t), Datapath: DatapathUDP})
	must(t, err)
	defer a.Close()
	bind := func(port uint16) error {
		l, err := a.CreateListener()
		must(t, err)
		defer l.Close()
		return l.Bind(netip.AddrPortFrom(here, port))
	}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: limit.Max})) // no number above 0: those in use stay
	given, chosen := bind(7001), bind(0)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	for _, err := range []error{given, chosen} {
		wantStatus(t, "without descriptors", err, ErrInsufficientResources)
		wantOneLine(t, err, "takes a socket", "ulimit -n")
	}
	must(t, bind(7001))
	must(t, bind(0))
}
