package aead

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
)

// suites are all suites of the package.
var suites = []Suite{AES128GCM, AES256GCM, ChaCha20Poly1305}

// fill returns n bytes of a sequence that is the same in every run.
func fill(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// newSecret returns a secret that the seed determines.
func newSecret(t testing.TB, suite Suite, seed uint64) Secret {
	t.Helper()
	s, err := NewSecret(suite, fill(seed, suite.SecretLen()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newKey returns the key of newSecret.
func newKey(t testing.TB, suite Suite, seed uint64) *Key {
	t.Helper()
	s, k := newSecret(t, suite, seed), new(Key)
	if err := k.Make(&s); err != nil {
		t.Fatal(err)
	}
	return k
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSuitesHaveTheNumbersOfTLS(t *testing.T) {
	for suite, id := range map[Suite]uint16{
		AES128GCM: tls.TLS_AES_128_GCM_SHA256, AES256GCM: tls.TLS_AES_256_GCM_SHA384, ChaCha20Poly1305: tls.TLS_CHACHA20_POLY1305_SHA256,
	} {
		if uint16(suite) != id || !suite.Known() {
			t.Errorf("%v is %#04x", suite, id)
		}
	}
	for _, suite := range []Suite{0, AES128GCM - 1, ChaCha20Poly1305 + 1, 0xffff} {
		if suite.Known() || suite.String() != "unknown" {
			t.Errorf("suite %#04x is known as %v", uint16(suite), suite)
		}
	}
}

// The derivation is that of RFC 9001 appendices A.1 and A.5, whose labels are QUIC's.
func TestExpandLabelVectors(t *testing.T) {
	const (
		initial = "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea" // appendix A.1, client_initial_secret
		short   = "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b" // appendix A.5
	)
	for _, v := range []struct {
		suite               Suite
		secret, label, want string
	}{
		{AES128GCM, initial, "quic key", "1f369613dd76d5467730efcbe3b1a22d"},
		{AES128GCM, initial, "quic iv", "fa044b2f42a3fd3b46fb255c"},
		{ChaCha20Poly1305, short, "quic key", "c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8"},
		{ChaCha20Poly1305, short, "quic iv", "e0459b3474bdd0e44a41c144"},
		{ChaCha20Poly1305, short, "quic ku", "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9"},
	} {
		got := make([]byte, len(v.want)/2)
		expandLabel(v.suite, unhex(t, v.secret), v.label, got)
		if hex.EncodeToString(got) != v.want {
			t.Errorf("%s is %x, want %s", v.label, got, v.want)
		}
	}
}

// Labels of every length that a derivation may have give what crypto/hkdf gives.
func TestExpandLabelIsThatOfTheLibrary(t *testing.T) {
	for _, suite := range suites {
		for seed := range uint64(50) {
			secret := fill(seed, suite.SecretLen())
			label := string(fill(seed+100, int(seed)%(maxLabel+1)))
			got := make([]byte, 1+int(seed)%suite.SecretLen())
			expandLabel(suite, secret, label, got)
			info := append([]byte{0, byte(len(got)), byte(len("tls13 ") + len(label))}, "tls13 "+label+"\x00"...)
			h := sha256.New
			if suite == AES256GCM {
				h = sha512.New384
			}
			want, err := hkdf.Expand(h, secret, string(info), len(got))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%v: %q of %x is %x, want %x", suite, label, secret, got, want)
			}
		}
	}
}

// Packets are sealed as in RFC 9001 appendices A.3 and A.5.
func TestSealVectors(t *testing.T) {
	for _, v := range []struct {
		suite                          Suite
		key, iv, header, plain, sealed string
		number                         uint64
	}{
		{
			AES128GCM, "cf3a5331653c364c88f0f379b6067e37", "0ac1493ca1905853b0bba03e",
			"c1000000010008f067a5502a4262b50040750001",
			"02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00020304",
			"5a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee",
			1,
		},
		{
			ChaCha20Poly1305, "c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8", "e0459b3474bdd0e44a41c144",
			"4200bff4", "01", "655e5cd55c41f69080575d7999c25a5bfb", 654360564,
		},
	} {
		c, err := newCipher(v.suite, unhex(t, v.key))
		if err != nil {
			t.Fatal(err)
		}
		k := &Key{aead: c, iv: [IVLen]byte(unhex(t, v.iv))}
		header, plain, sealed := unhex(t, v.header), unhex(t, v.plain), unhex(t, v.sealed)
		if got := k.Seal(nil, plain, header, v.number); !bytes.Equal(got, sealed) {
			t.Errorf("%v sealed %x, want %x", v.suite, got, sealed)
		}
		if got, ok := k.Open(nil, sealed, header, v.number); !ok || !bytes.Equal(got, plain) {
			t.Errorf("%v opened %x, %v", v.suite, got, ok)
		}
	}
}

// The keys of this protocol are not those of QUIC for the same secret, and a generation has nothing in common with the next.
func TestKeysOfLabelsAndGenerationsDiffer(t *testing.T) {
	for _, suite := range suites {
		secret := newSecret(t, suite, 1)
		seen := map[string]string{}
		note := func(name string, b []byte) {
			if before := seen[string(b)]; before != "" {
				t.Errorf("%v: %s and %s are the same", suite, name, before)
			}
			seen[string(b)] = name
		}
		quic := make([]byte, suite.KeyLen())
		expandLabel(suite, secret.bytes[:suite.SecretLen()], "quic key", quic)
		note("QUIC's key", quic)
		for generation := 1; generation <= 20; generation++ {
			key, iv, err := secret.Material()
			if err != nil {
				t.Fatal(err)
			}
			if len(key) != suite.KeyLen() || len(iv) != IVLen {
				t.Fatalf("%v: a key of %d and a vector of %d bytes", suite, len(key), len(iv))
			}
			note(fmt.Sprint("key ", generation), key)
			note(fmt.Sprint("vector ", generation), iv)
			if secret, err = secret.Next(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What one side seals opens at the other side, for every size, in its own memory and in place.
func TestOpenReturnsWhatWasSealed(t *testing.T) {
	for _, suite := range suites {
		out, in := newKey(t, suite, 1), newKey(t, suite, 1)
		header := fill(2, 24)
		for _, size := range []int{0, 1, 15, 16, 17, 63, 64, 1372, 8900, 64 << 10} {
			plain := fill(3, size)
			sealed := out.Seal(nil, plain, header, uint64(size))
			if len(sealed) != size+TagLen {
				t.Fatalf("%v: %d bytes became %d", suite, size, len(sealed))
			}
			if got, ok := in.Open(nil, sealed, header, uint64(size)); !ok || !bytes.Equal(got, plain) {
				t.Fatalf("%v: %d bytes did not return", suite, size)
			}
			if got, ok := in.Open(sealed[:0], sealed, header, uint64(size)); !ok || !bytes.Equal(got, plain) {
				t.Fatalf("%v: %d bytes did not return in place", suite, size)
			}
		}
	}
}

// Nothing opens if a single bit of the packet, its header, its number or its key differs.
func TestNothingOpensWithOneBitChanged(t *testing.T) {
	for _, suite := range suites {
		k, other := newKey(t, suite, 1), newKey(t, suite, 2)
		header, plain, number := fill(2, 24), fill(3, 41), uint64(1)<<40|77
		sealed := k.Seal(nil, plain, header, number)
		refuse := func(what string, k *Key, sealed, header []byte, number uint64) {
			t.Helper()
			if _, ok := k.Open(nil, sealed, header, number); ok {
				t.Errorf("%v: opened with %s", suite, what)
			}
		}
		for i := range 8 * len(sealed) {
			b := bytes.Clone(sealed)
			b[i/8] ^= 1 << (i % 8)
			refuse(fmt.Sprint("bit ", i, " changed"), k, b, header, number)
		}
		for i := range 8 * len(header) {
			b := bytes.Clone(header)
			b[i/8] ^= 1 << (i % 8)
			refuse(fmt.Sprint("header bit ", i, " changed"), k, sealed, b, number)
		}
		for i := range 64 {
			refuse(fmt.Sprint("number bit ", i, " changed"), k, sealed, header, number^1<<i)
		}
		for n := range sealed {
			refuse(fmt.Sprint("a length of ", n), k, sealed[:n], header, number)
		}
		refuse("one byte more", k, append(bytes.Clone(sealed), 0), header, number)
		refuse("a shorter header", k, sealed, header[:23], number)
		refuse("another key", other, sealed, header, number)
	}
}

// A refused packet leaves dst as long as it was, so that its bytes are not taken for a plaintext.
func TestRefusedPacketReturnsNoPlaintext(t *testing.T) {
	for _, suite := range suites {
		k := newKey(t, suite, 1)
		dst := append(make([]byte, 0, 256), "before"...)
		sealed := k.Seal(nil, fill(3, 64), nil, 1)
		sealed[0] ^= 1
		got, ok := k.Open(dst, sealed, nil, 1)
		if ok || string(got) != "before" {
			t.Errorf("%v: returned %q, %v", suite, got, ok)
		}
	}
}

// All 64 bits of a number reach the nonce: no two numbers have the same keystream.
func TestEveryNumberHasItsNonce(t *testing.T) {
	k := newKey(t, AES128GCM, 1)
	seen := map[[IVLen]byte]uint64{}
	for i := range 64 {
		for _, n := range []uint64{1 << i, 1<<i - 1, ^uint64(1 << i)} {
			k.setNonce(n)
			if before, has := seen[k.nonce]; has && before != n {
				t.Fatalf("%d and %d have one nonce", n, before)
			}
			seen[k.nonce] = n
		}
	}
}

func TestSecretsOfWrongLength(t *testing.T) {
	for _, suite := range suites {
		for _, n := range []int{0, 16, suite.SecretLen() - 1, suite.SecretLen() + 1, 64} {
			if n == suite.SecretLen() {
				continue
			}
			if _, err := NewSecret(suite, make([]byte, n)); err == nil {
				t.Errorf("%v took a secret of %d bytes", suite, n)
			}
		}
	}
	if _, err := NewSecret(0x1304, make([]byte, 32)); err == nil {
		t.Error("a secret of an unknown suite was taken")
	}
}

// An erased secret has no bytes left and gives no key, and an erased key is not ready.
func TestEraseLeavesNothing(t *testing.T) {
	secret, key := newSecret(t, AES256GCM, 1), newKey(t, AES256GCM, 1)
	secret.Erase()
	if secret != (Secret{}) {
		t.Error("bytes of the secret are left")
	}
	if _, err := secret.Next(); err == nil {
		t.Error("an erased secret has a next one")
	}
	if err := new(Key).Make(&secret); err == nil {
		t.Error("a key was made of an erased secret")
	}
	if key.Erase(); key.Ready() || *key != (Key{}) {
		t.Error("an erased key is ready")
	}
}

func TestSealAndOpenAllocateNothing(t *testing.T) {
	for _, suite := range suites {
		k, header, plain := newKey(t, suite, 1), fill(2, 24), fill(3, 1372)
		sealed, opened := make([]byte, 0, 2048), make([]byte, 0, 2048)
		number := uint64(0)
		if n := testing.AllocsPerRun(100, func() {
			number++
			sealed = k.Seal(sealed[:0], plain, header, number)
			var ok bool
			if opened, ok = k.Open(opened[:0], sealed, header, number); !ok {
				t.Fatal("the packet did not open")
			}
			sealed[9] ^= 1
			if _, ok := k.Open(opened[:0], sealed, header, number); ok {
				t.Fatal("a damaged packet opened")
			}
		}); n != 0 {
			t.Errorf("%v allocates %v times", suite, n)
		}
	}
}

// A connection derives a key when it wakes from idleness, and again with each key update. Only the library's cipher is allocated.
func TestDerivingAllocatesOnlyTheCipher(t *testing.T) {
	for _, suite := range suites {
		secret, bytes := newSecret(t, suite, 1), fill(2, suite.KeyLen())
		var key Key
		least := testing.AllocsPerRun(100, func() {
			if _, err := newCipher(suite, bytes); err != nil {
				t.Fatal(err)
			}
		})
		if n := testing.AllocsPerRun(100, func() {
			var err error
			if secret, err = secret.Next(); err != nil || key.Make(&secret) != nil {
				t.Fatal("no key was derived")
			}
		}); n > least {
			t.Errorf("%v: a key update allocates %v times, the cipher %v times", suite, n, least)
		}
	}
}

func TestUsable(t *testing.T) {
	if err := Usable(); err != nil {
		t.Error(err)
	}
}

// FuzzOpen opens any bytes: only what was sealed opens, and it opens to what it was.
func FuzzOpen(f *testing.F) {
	f.Add(uint16(0), []byte("header"), []byte("sealed bytes of a stranger"), uint64(1))
	f.Add(uint16(1), []byte{}, make([]byte, TagLen), uint64(0))
	f.Add(uint16(2), make([]byte, 24), []byte{1}, ^uint64(0))
	f.Fuzz(func(t *testing.T, n uint16, header, bytesIn []byte, number uint64) {
		k := newKey(t, suites[int(n)%len(suites)], 1)
		if _, ok := k.Open(nil, bytesIn, header, number); ok {
			t.Fatal("a packet opened that nobody sealed")
		}
		sealed := k.Seal(nil, bytesIn, header, number)
		if plain, ok := k.Open(nil, sealed, header, number); !ok || !bytes.Equal(plain, bytesIn) {
			t.Fatalf("sealed %x, opened %x, %v", bytesIn, plain, ok)
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	for _, suite := range suites {
		b.Run(suite.String(), func(b *testing.B) {
			var key Key
			secret := newSecret(b, suite, 1)
			b.ReportAllocs()
			for b.Loop() {
				secret, _ = secret.Next()
				_ = key.Make(&secret)
			}
		})
	}
}

func BenchmarkSeal(b *testing.B) { benchmark(b, false) }
func BenchmarkOpen(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, open bool) {
	for _, suite := range suites {
		for _, size := range []int{64, 1372, 8900, 65000} {
			b.Run(fmt.Sprint(suite, "/", size), func(b *testing.B) {
				k, header, plain := newKey(b, suite, 1), fill(2, 24), fill(3, size)
				sealed, opened := k.Seal(nil, plain, header, 0), make([]byte, 0, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for n := uint64(0); b.Loop(); n++ {
					if !open {
						sealed = k.Seal(sealed[:0], plain, header, n)
					} else if _, ok := k.Open(opened, sealed, header, 0); !ok {
						b.Fatal("the packet did not open")
					}
				}
			})
		}
	}
}
