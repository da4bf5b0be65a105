package ndcapture

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/wire"
)

// Connection ids, and the nonce of the REQ, of made connections.
const (
	clientID = 0x1111
	serverID = 0x2222
	reqNonce = 0x3333
)

// made is an encrypted connection whose packets a test makes, with secrets of its own.
type made struct {
	t       testing.TB
	suite   aead.Suite
	ends    [2]wire.Endpoint
	random  clientRandom
	secrets secrets
}

func newMade(t testing.TB, suite uint16, ends [2]wire.Endpoint) *made {
	m := &made{t: t, suite: aead.Suite(suite), ends: ends, random: clientRandom{byte(suite), 7}}
	for _, sender := range []side{client, server} {
		for generation := range 2 {
			m.secrets[sender][generation] = bytes.Repeat([]byte{byte(suite), byte(sender), byte(generation), 9}, m.suite.SecretLen()/4)
		}
	}
	return m
}

// log is the key log of the connection, between lines that a reader must ignore.
func (m *made) log() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# a comment\n\nEXPORTER_SECRET %x %x\nCLIENT_TRAFFIC_SECRET_0 %x\nCLIENT_TRAFFIC_SECRET_0 xy zz\n", m.random, m.random, m.random)
	for label, what := range keyLabels {
		fmt.Fprintf(&b, "%s %x %x\n", label, m.random, m.secrets[what.sender][what.generation])
	}
	return b.String()
}

// hello is a REQ with the beginning of a ClientHello.
func (m *made) hello() []byte {
	part := slices.Concat([]byte{1, 0, 1, 0, 3, 3}, m.random[:], make([]byte, 200))
	hello := wire.Hello{
		ConnID: clientID, Nonce: reqNonce, SrcPort: 1, DstPort: 2, MinVersion: 3, MaxVersion: 3, UDPPort: 5, Window: 1 << 20, MaxPacket: 1408,
		Fragment: wire.HelloFragment{Total: uint16(len(part)), Bytes: part},
	}
	b := append(make([]byte, wire.BaseHeaderLen), controlBytes(wire.CtlREQ, 0, hello.Append(nil))...)
	b = append(b, make([]byte, wire.MinPacket-len(b))...)
	wire.PutBaseHeader(b, &wire.BaseFields{Number: 1})
	wire.PutCRC(b, wire.SumFirst(1, 0, b))
	return b
}

// shake is the SHAKE with the passive end's connection id.
func (m *made) shake() []byte {
	shake := wire.Shake{ConnID: serverID, Nonce: reqNonce, UDPPort: 5, Total: 1, Bytes: []byte{2}}
	b := append(make([]byte, wire.BaseHeaderLen), controlBytes(wire.CtlSHAKE, 0, shake.Append(nil))...)
	wire.PutBaseHeader(b, &wire.BaseFields{Number: 1, ConnID: clientID})
	wire.PutCRC(b, wire.SumFirst(1, 0, b))
	return b
}

// contents are what seal seals: a segment of a message.
var contents = []byte("a segment of a message")

// seal makes a sealed segment of a generation, from a sender.
func (m *made) seal(sender side, generation uint32, number uint64, f wire.BaseFields) []byte {
	secret, err := aead.NewSecret(m.suite, m.secrets[sender][min(generation, 1)])
	for g := uint32(1); g < generation && err == nil; g++ {
		secret, err = secret.Next()
	}
	var key aead.Key
	if err == nil {
		err = key.Make(&secret)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	f.Piece, f.Offset, f.Number, f.ConnID, f.Flags = true, 64, number, [2]uint64{serverID, clientID}[sender], f.Flags|wire.FlagSecure
	b := make([]byte, wire.BaseHeaderLen)
	wire.PutBaseHeader(b, &f)
	wire.PutGeneration(b, generation)
	return key.Seal(b, contents, binary.BigEndian.AppendUint32(slices.Clone(b), f.Message), number)
}

// capture is a capture of the handshake and of further packets.
func (m *made) capture(packets ...[]byte) string {
	m.t.Helper()
	b, err := os.ReadFile(writePackets(m.t, m.ends, 0, slices.Concat([][]byte{m.hello(), m.shake()}, packets)...))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b)
}

// decrypt decrypts a capture of the connection, and returns the packets behind the handshake.
func (m *made) decrypt(capture string) (DecryptSummary, [][]byte) {
	m.t.Helper()
	var out bytes.Buffer
	sum, err := Decrypt(&out, strings.NewReader(capture), strings.NewReader(m.log()))
	if err != nil {
		m.t.Fatal(err)
	}
	return sum, packetsOf(m.t, out.Bytes())[2:]
}

// want checks that packets are segments in plain whose checksums cover the full numbers.
func (m *made) want(what string, sum DecryptSummary, packets [][]byte, numbers []uint64, messages []uint32) {
	m.t.Helper()
	if sum.Kept() != 0 || len(packets) != len(numbers) {
		m.t.Fatalf("%s: %+v", what, sum)
	}
	for i, b := range packets {
		h, d := wire.ParseBaseHeader(b)
		if d != wire.DropNone || h.Secure() || !h.Piece() || string(b[wire.BaseHeaderLen:]) != string(contents) || h.CRC() != wire.SumFirst(numbers[i], messages[i], b) {
			m.t.Errorf("%s: packet %d is %v, % x", what, i, d, b)
		}
	}
}

// Packets open for each cipher and over both families, of generations that follow each other or not, and in another order.
func TestDecryptGenerations(t *testing.T) {
	for _, suite := range []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256} {
		for _, ends := range [][2]wire.Endpoint{peer4, peer6} {
			m := newMade(t, suite, ends)
			var packets [][]byte
			var numbers []uint64
			for i, generation := range []uint32{1, 1, 2, 1, 3, 2, 3, 9, 8, 200, 199, 456, 1} {
				number := uint64(1000 + 7*i)
				packets = append(packets, m.seal(side(i%2), generation, number, wire.BaseFields{}))
				numbers = append(numbers, number)
			}
			sum, got := m.decrypt(m.capture(packets...))
			m.want(fmt.Sprint(m.suite), sum, got, numbers, make([]uint32, len(numbers)))
		}
	}
}

// A generation that is too far away is not derived: a forger would otherwise choose how long it takes.
func TestDecryptOfAFarGeneration(t *testing.T) {
	m := newMade(t, tls.TLS_AES_128_GCM_SHA256, peer4)
	far := m.seal(server, 1, 6, wire.BaseFields{})
	wire.PutGeneration(far, 1<<32-1)
	sum, got := m.decrypt(m.capture(m.seal(server, 1, 5, wire.BaseFields{}), far, m.seal(server, 1+maxAhead+1, 7, wire.BaseFields{}), m.seal(server, 1+maxAhead, 8, wire.BaseFields{})))
	if sum.Decrypted != 2 || sum.WrongTag != 2 || !bytes.Equal(got[1], far) {
		t.Errorf("%+v", sum)
	}
}

// Full numbers follow from the packets before: across 32 and 16 bits, out of order, after a gap in which message numbers wrapped around,
// and in a second section, which begins with the first numbers.
func TestDecryptNumbers(t *testing.T) {
	m := newMade(t, tls.TLS_AES_256_GCM_SHA384, peer4)
	numbers := []uint64{1<<31 - 1, 1<<32 - 2, 1 << 32, 1<<32 - 1, 1<<32 + 70_000, 1<<32 + 1<<31 - 90_000}
	messages := []uint32{3, 32_000, 65_535, 65_534, 65_536 + 40_000, 5 << 16}
	var packets [][]byte
	for i, number := range numbers {
		packets = append(packets, m.seal(client, 1, number, wire.BaseFields{Message: messages[i]}))
	}
	one := m.capture(packets...)
	sum, got := m.decrypt(one)
	m.want("one section", sum, got, numbers, messages)
	sum, got = m.decrypt(one + one)
	m.want("two sections", sum, slices.Delete(got, len(numbers), len(numbers)+2), slices.Concat(numbers, numbers), slices.Concat(messages, messages))
	both := []wire.BaseFields{{Message: 7}, {Message: 40_000}, {Message: 9, Flags: wire.FlagSpace}}
	packets = nil
	for i, f := range both {
		packets = append(packets, m.seal(server, 1, uint64(20+i), f))
	}
	sum, got = m.decrypt(m.capture(packets...))
	m.want("two spaces", sum, got, []uint64{20, 21, 22}, []uint32{7, 40_000, 9})
}

// A packet with a changed bit stays as it is, and the packets around it open. So do packets after a forged handshake in plain.
func TestDecryptForged(t *testing.T) {
	m := newMade(t, tls.TLS_CHACHA20_POLY1305_SHA256, peer4)
	first, last := m.seal(server, 1, 5, wire.BaseFields{}), m.seal(server, 1, 9, wire.BaseFields{})
	for at := range first {
		forged := slices.Clone(m.seal(server, 1, 6, wire.BaseFields{}))
		forged[at] ^= 1
		sum, got := m.decrypt(m.capture(first, forged, last))
		if sum.Decrypted != 2 || !bytes.Equal(got[1], forged) {
			t.Errorf("byte %d changed: %+v", at, sum)
		}
	}
	stranger := *m
	stranger.random = clientRandom{99}
	for what, packets := range map[string][][]byte{
		"another ClientHello before":   {stranger.hello(), first, last},
		"another ClientHello between":  {first, stranger.hello(), m.shake(), last},
		"a repeated handshake between": {first, m.hello(), m.shake(), last},
	} {
		if sum, _ := m.decrypt(m.capture(packets...)); sum.Decrypted != 2 || sum.Kept() != 0 {
			t.Errorf("%s: %+v", what, sum)
		}
	}
}

// Cut packets are counted and stay.
func TestDecryptTruncated(t *testing.T) {
	m := newMade(t, tls.TLS_AES_128_GCM_SHA256, peer4)
	sealed := m.seal(server, 1, 5, wire.BaseFields{})
	b, err := os.ReadFile(writePackets(t, peer4, len(sealed)-1, sealed))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sum, err := Decrypt(&out, strings.NewReader(m.capture()+string(b)), strings.NewReader(m.log()))
	if err != nil || sum.Truncated != 1 || sum.Kept() != 1 || !bytes.HasSuffix(framesOf(t, out.Bytes())[2], sealed[:len(sealed)-1]) {
		t.Errorf("%+v, %v", sum, err)
	}
}

// FuzzDecrypt decrypts any capture with any key log. The output has the same number of packets. It is a capture without the packets that
// opened, so nothing opens in it again.
func FuzzDecrypt(f *testing.F) {
	for _, suite := range []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384} {
		m := newMade(f, suite, peer4)
		f.Add([]byte(m.capture(m.seal(server, 1, 5, wire.BaseFields{}), m.seal(client, 3, 9, wire.BaseFields{Message: 2}))), []byte(m.log()))
	}
	f.Fuzz(func(t *testing.T, capture, keys []byte) {
		var out, again bytes.Buffer
		sum, err := Decrypt(&out, bytes.NewReader(capture), bytes.NewReader(keys))
		if err != nil {
			return
		}
		if sum.Decrypted+sum.Kept() > sum.Packets {
			t.Fatalf("%+v", sum)
		}
		second, err := Decrypt(&again, bytes.NewReader(out.Bytes()), bytes.NewReader(keys))
		if err != nil || second.Packets != sum.Packets {
			t.Fatalf("%+v, then %+v, %v", sum, second, err)
		}
		if second.Decrypted == 0 && !bytes.Equal(out.Bytes(), again.Bytes()) {
			t.Fatal("a capture in which nothing opens was changed")
		}
	})
}
