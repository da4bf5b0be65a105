package sim_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/internal/tlshake"
	"github.com/ndxdp/ndxdp/provider/sim"
)

// realWorlds is how many worlds have handshakes by crypto/tls.
const realWorlds = 200

// authority signs the certificates of hosts. They are of Ed25519 because all its signatures have one length, so that a world has the same
// packets each time.
type authority struct {
	key   ed25519.PrivateKey
	cert  *x509.Certificate
	roots *x509.CertPool
	mu    sync.Mutex
	hosts map[[16]byte]tls.Certificate
}

var theAuthority = sync.OnceValue(func() *authority {
	a := &authority{roots: x509.NewCertPool(), hosts: map[[16]byte]tls.Certificate{}}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.roots.AddCert(a.cert)
	return a
})

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, ed25519.PrivateKey) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert, private
}

// of returns the certificate of a host, with more certificates behind it.
func (a *authority) of(host [16]byte, more int) tls.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.hosts[host]
	if !ok {
		cert, key := a.sign(&x509.Certificate{IPAddresses: []net.IP{netip.AddrFrom16(host).Unmap().AsSlice()}})
		c = tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
		a.hosts[host] = c
	}
	c.Certificate = c.Certificate[:1:1]
	for range more {
		c.Certificate = append(c.Certificate, a.cert.Raw)
	}
	return c
}

// realTLS is a sim.Handshaker by crypto/tls.
type realTLS struct{ *tlshake.Pool }

func newRealTLS() sim.Handshaker { return realTLS{tlshake.New(1)} }

var errRefused = errors.New("the peer is refused")

// Shaker implements sim.Handshaker. The kinds are: the usual key exchange, whose ClientHello takes two packets, a shorter one, and a
// HelloRetryRequest; each with certificates in up to ten packets.
func (r realTLS) Shaker(host [16]byte, client bool, kind uint64, refuses func() bool) shaker.Shaker {
	a := theAuthority()
	cfg := &tls.Config{
		Certificates: []tls.Certificate{a.of(host, []int{0, 2, 8, 30}[kind>>2&3])}, RootCAs: a.roots, ClientCAs: a.roots, ClientAuth: tls.RequireAndVerifyClientCert,
		VerifyConnection: func(tls.ConnectionState) error {
			if refuses() {
				return errRefused
			}
			return nil
		},
	}
	switch {
	case kind&3 == 0:
		cfg.CurvePreferences = []tls.CurveID{tls.X25519}
	case kind&3 == 1 && client:
		cfg.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP384}
	case kind&3 == 1:
		cfg.CurvePreferences = []tls.CurveID{tls.CurveP384}
	}
	harden, make := tlshake.ServerConfig, r.Server
	if client {
		harden, make = tlshake.ClientConfig, r.Client
	}
	hardened, err := harden(cfg)
	if err != nil {
		panic(err)
	}
	return make(hardened)
}

// Peer implements sim.Handshaker.
func (r realTLS) Peer(state any) (host [16]byte, ok bool) {
	s, ok := state.(tls.ConnectionState)
	if !ok || len(s.VerifiedChains) == 0 {
		return host, false
	}
	ip, ok := netip.AddrFromSlice(s.PeerCertificates[0].IPAddresses[0])
	return ip.As16(), ok
}

// TestRealTLSWorlds runs worlds whose handshakes are by crypto/tls. A world fails again with its seed, although its keys are others.
func TestRealTLSWorlds(t *testing.T) {
	o := options(t)
	o.Handshaker = newRealTLS
	if *seed != 0 {
		replay(t, o)
		return
	}
	f := &fleet{t: t, last: *first + min(*seeds, realWorlds)}
	f.next.Store(*first)
	f.run(o)
	f.report(o)
	r := &f.total
	t.Logf("%d worlds, %d ends of handshakes succeeded, and %d failed; %+v", f.done, r.Handshakes, r.HandshakesFailed, r.Met)
	if *seeds < realWorlds || *without != "" || *plain {
		return
	}
	if r.Handshakes == 0 || r.HandshakesFailed == 0 || r.Met.LostFragments == 0 || r.Met.RepeatedShakes == 0 {
		t.Errorf("%d ends of handshakes succeeded, and %d failed; %+v", r.Handshakes, r.HandshakesFailed, r.Met)
	}
}

// TestSameSeedSameRealTLS runs seeds twice and compares what happened: if it differed, no failure with crypto/tls could be replayed.
func TestSameSeedSameRealTLS(t *testing.T) {
	for s := uint64(1); s < 31; s++ {
		var reports [2]sim.Report
		for i := range reports {
			reports[i], _ = sim.Run(s, sim.Options{Handshaker: newRealTLS})
		}
		if reports[0] != reports[1] {
			t.Errorf("seed %d did two things:\n%+v\n%+v", s, reports[0], reports[1])
		}
	}
}
