package bench

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// TLS has the configurations of encrypted connections, which both sides use for both roles. The zero value is without encryption.
type TLS struct {
	Dial, Serve *tls.Config
}

// connector prepares a connector that connects.
func (t TLS) connector(c *nd.Connector) error {
	if t.Dial == nil {
		return nil
	}
	return c.UseTLS(t.Dial)
}

// listener prepares a listener.
func (t TLS) listener(l *nd.Listener) error {
	if t.Serve == nil {
		return nil
	}
	return l.UseTLS(t.Serve, nd.TLSRequired)
}

// Identity is a certificate for one run, in PEM form. Both processes of the run have the same one, and accept only its authority.
type Identity struct {
	Authority   string `json:"authority"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// runName is the name in the certificate of a run.
const runName = "ndperf"

// runLife is how long the certificate of a run is valid. It exceeds every run.
const runLife = 7 * 24 * time.Hour

// NewIdentity makes an authority, and a certificate of it. The key of the authority is not kept.
func NewIdentity() (*Identity, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the run: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the run: %w", err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(runLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, DNSNames: []string{runName},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the run: %w", err)
	}
	own, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the run: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the run: %w", err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return &Identity{text("CERTIFICATE", root), text("CERTIFICATE", own), text("PRIVATE KEY", secret)}, nil
}

// TLS returns the configurations of an identity. nil is without encryption.
func (i *Identity) TLS() (TLS, error) {
	if i == nil {
		return TLS{}, nil
	}
	own, err := tls.X509KeyPair([]byte(i.Certificate), []byte(i.Key))
	if err != nil {
		return TLS{}, fmt.Errorf("use the certificate of the run: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(i.Authority))
	both := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: pool, ServerName: runName,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		// Over TCP, a connection begins with its largest records. ND has no records, and no tickets.
		DynamicRecordSizingDisabled: true, SessionTicketsDisabled: true,
	}
	return TLS{Dial: both, Serve: both}, nil
}

// plainRounds is the number of rounds in which encrypted and plain latency are measured in turn.
const plainRounds = 5

// BesidePlain splits a job with encryption. The first jobs measure half round trips in rounds, each with and without encryption. The
// rest measures everything else. Medians and Best join the rounds.
func BesidePlain(j Job) (rounds, rest []Job) {
	var pings, others []Spec
	for _, s := range j.Specs {
		if s.Test == WriteLat && !s.Event {
			s.Duration = max(s.Duration/plainRounds, rivalLeast)
			pings = append(pings, s)
		} else {
			others = append(others, s)
		}
	}
	if len(pings) > 0 {
		secure, plain := j, j
		secure.Specs, plain.Specs, plain.Kind = pings, pings, KindNDPlain
		for range plainRounds {
			rounds = append(rounds, secure, plain)
		}
	}
	if len(others) > 0 {
		j.Specs = others
		rest = append(rest, j)
	}
	return rounds, rest
}

// Medians returns for each test of latency the round with the median.
func Medians(rounds []Result) (medians []Result) {
	for len(rounds) > 0 {
		first := rounds[0]
		other := func(x Result) bool { return x.Test != first.Test || x.Size != first.Size || x.MTU != first.MTU }
		of := slices.DeleteFunc(slices.Clone(rounds), other)
		slices.SortStableFunc(of, func(a, b Result) int { return cmp.Compare(a.LatUS.P50, b.LatUS.P50) })
		medians = append(medians, of[(len(of)-1)/2])
		rounds = slices.DeleteFunc(slices.Clone(rounds), func(x Result) bool { return !other(x) })
	}
	return medians
}

// plainSink reports results without encryption as baselines of encrypted ones.
type plainSink struct{ Sink }

func (s plainSink) Result(x Result) {
	s.Baseline(Baseline{
		Kind: KindNDPlain, Test: x.Test, Size: x.Size, MTU: x.MTU, Datapath: x.Datapath, Variant: x.Datapath, Ops: x.Ops, Bytes: x.Bytes,
		Seconds: x.Seconds, Gbps: x.Gbps, Mops: x.Mops, LatIs: x.LatIs, LatUS: x.LatUS, CPUUS: x.CPUUS,
	})
}
