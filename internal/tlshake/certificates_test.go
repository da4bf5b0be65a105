package tlshake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"
)

// authority signs certificates of tests.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key = newKey(t)
	a.cert = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, &a.key.PublicKey, nil)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign completes a template with what it lacks. A nil parent signs itself.
func (a *authority) sign(template *x509.Certificate, key *ecdsa.PublicKey, parent *x509.Certificate) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(1)
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// issue returns a certificate for a name, for servers and clients, valid until end, or for an hour if end is zero.
func (a *authority) issue(name string, end time.Time) tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if !end.IsZero() {
		template.NotBefore, template.NotAfter = end.Add(-time.Hour), end
	}
	return tls.Certificate{Certificate: [][]byte{a.sign(template, &key.PublicKey, a.cert).Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// mutual returns configurations of two ends that verify each other.
func (a *authority) mutual() (client, server *tls.Config) {
	client = &tls.Config{RootCAs: a.pool(), ServerName: "server", Certificates: []tls.Certificate{a.issue("client", time.Time{})}}
	server = &tls.Config{ClientCAs: a.pool(), ClientAuth: tls.RequireAndVerifyClientCert, Certificates: []tls.Certificate{a.issue("server", time.Time{})}}
	return client, server
}
