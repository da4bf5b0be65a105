package nd

import (
	"crypto/fips140"
	"crypto/tls"
	"os"
	"os/exec"
	"testing"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// fipsEnv names the FIPS 140-3 mode in a process of TestFIPSModes.
const fipsEnv = "NDXDP_TEST_FIPS"

// TestFIPSModes runs a process in each mode. Encryption works in the modes off and on. In mode only, UseTLS says what is not approved and
// which mode to choose.
func TestFIPSModes(t *testing.T) {
	if mode := os.Getenv(fipsEnv); mode != "" {
		inFIPSMode(t, mode)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	for _, mode := range []string{"off", "on", "only"} {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFIPSModes$", "-test.v")
		cmd.Env = append(os.Environ(), fipsEnv+"="+mode, "GODEBUG=fips140="+mode)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}

// inFIPSMode checks the mode of its process, and uses TLS.
func inFIPSMode(t *testing.T, mode string) {
	if fips140.Enabled() != (mode != "off") || fips140.Enforced() != (mode == "only") {
		t.Fatalf("mode %s is not in force", mode)
	}
	if mode != "only" {
		TestTLSConnection(t)
		TestEndpointTLS(t)
		return
	}
	r, _ := newLoopRig(t, DatapathUDP)
	dialer, listener := mutual(testhelp.NewAuthority(t))
	l, err := r.b.CreateListener()
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	e := newEnd(t, r.a, 64)
	for name, err := range map[string]error{
		"connector": e.ctr.UseTLS(dialer), "listener": l.UseTLS(listener, TLSAllowed), "any cipher": e.ctr.UseTLS(&tls.Config{}),
	} {
		wantStatus(t, name, err, ErrInvalidParameter)
		wantOneLine(t, err, "use TLS", "AES-GCM", "GODEBUG=fips140=on")
	}
	_, err = Dial(t.Context(), unreachable, EndpointConfig{Adapter: r.a, TLS: dialer})
	wantStatus(t, "endpoint", err, ErrInvalidParameter)
}
