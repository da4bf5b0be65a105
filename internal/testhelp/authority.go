package testhelp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority issues certificates of tests.
type Authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority makes an authority with a key of its own.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
	a.cert = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, &a.key.PublicKey)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	return key
}

// sign signs a template, for the hour around now unless it has times. The first certificate signs itself.
func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	template.NotBefore = template.NotAfter.Add(-2 * time.Hour)
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	Must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	Must(a.t, err)
	return cert
}

// Issue returns a certificate with a common name, for the role of a listener and of a dialer. It is for the loopback addresses
// 127.0.0.1 to 127.0.0.6 and the name "node7" unless change, which may be nil, says otherwise.
func (a *Authority) Issue(name string, change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"node7"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for i := range 6 {
		template.IPAddresses = append(template.IPAddresses, net.IPv4(127, 0, 0, byte(i+1)))
	}
	if change != nil {
		change(template)
	}
	key := newKey(a.t)
	cert := a.sign(template, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// Pool returns the certificate of the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Mutual returns configurations of a dialer and a listener that verify each other. Their certificates have the common names "dialer" and
// "listener".
func (a *Authority) Mutual() (dialer, listener *tls.Config) {
	a.t.Helper()
	dialer = &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{a.Issue("dialer", nil)}}
	listener = &tls.Config{
		ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert, Certificates: []tls.Certificate{a.Issue("listener", nil)},
	}
	return dialer, listener
}
