package secure

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

const start = clock.Time(time.Hour)

// headerOf returns a base header that names a generation.
func headerOf(generation uint32) wire.BaseHeader {
	h := []byte("a header of 24 bytes....")
	wire.PutGeneration(h, generation)
	return h
}

// small are limits that a test reaches.
var small = Limits{Update: 16, Age: time.Minute, Most: Reserve + 64, Forged: 32, Keep: 2 * time.Second, Burst: 8, Every: 250 * time.Millisecond}

// testSecret returns a secret that the seed determines.
func testSecret(t testing.TB, suite aead.Suite, seed byte) *aead.Secret {
	t.Helper()
	s, err := aead.NewSecret(suite, bytes.Repeat([]byte{seed}, suite.SecretLen()))
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// direction is a Sealer and the Opener at its peer.
type direction struct {
	t      testing.TB
	l      *Limits
	out    Sealer
	in     Opener
	window Window
	now    clock.Time
}

// newDirection returns a direction with generation 1.
func newDirection(t testing.TB, suite aead.Suite, l *Limits) *direction {
	t.Helper()
	d := &direction{t: t, l: l, now: start}
	d.install(1, testSecret(t, suite, 7))
	return d
}

func (d *direction) install(generation uint32, secret *aead.Secret) {
	d.t.Helper()
	if err := d.out.Install(generation, secret, d.now); err != nil {
		d.t.Fatal(err)
	}
	if err := d.in.Install(generation, secret, &d.window, d.l, d.now); err != nil {
		d.t.Fatal(err)
	}
}

// packet is a sealed packet on its way.
type packet struct {
	sealed     []byte
	generation uint32
	number     uint64
}

func (d *direction) seal(number uint64) packet {
	return packet{d.out.Seal(nil, fmt.Append(nil, "packet ", number), headerOf(d.out.Generation()), number, uint32(number)), d.out.Generation(), number}
}

func (d *direction) open(p packet) wire.DropReason {
	plain, r := d.in.Open(nil, p.sealed, headerOf(p.generation), p.number, uint32(p.number), d.l, d.now)
	if want := fmt.Sprint("packet ", p.number); r == wire.DropNone && string(plain) != want {
		d.t.Fatalf("packet %d opened as %q", p.number, plain)
	}
	return r
}

// want opens a packet and compares what becomes of it.
func (d *direction) want(what string, p packet, r wire.DropReason) {
	d.t.Helper()
	if got := d.open(p); got != r {
		d.t.Errorf("%s: %v, want %v", what, got, r)
	}
}

func (d *direction) update() {
	d.t.Helper()
	if err := d.out.Update(d.now); err != nil {
		d.t.Fatal(err)
	}
}

// A packet of the next generation opens at once (PROTOCOL §10.4), and a packet of the generation before for as long as Limits.Keep.
func TestOpenerFollowsKeyUpdates(t *testing.T) {
	for _, suite := range []aead.Suite{aead.AES128GCM, aead.AES256GCM, aead.ChaCha20Poly1305} {
		d := newDirection(t, suite, &small)
		first, late, tooLate := d.seal(1), d.seal(2), d.seal(3)
		d.want("a packet of generation 1", first, wire.DropNone)
		d.update()
		d.want("the first packet of generation 2", d.seal(4), wire.DropNone)
		if d.in.Generation() != 2 {
			t.Errorf("generation %d is present, want 2", d.in.Generation())
		}
		d.now = d.now.Add(small.Keep - 1)
		d.want("an overtaken packet", late, wire.DropNone)
		d.now = d.now.Add(1)
		d.want("a packet overtaken too long ago", tooLate, wire.DropGeneration)
		d.want("a packet of the present generation", d.seal(5), wire.DropNone)
	}
}

// Packets of no other generation are opened: two ahead, far ahead, zero, or behind the generation before.
func TestOtherGenerationsAreDropped(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	p1 := d.seal(1)
	d.update()
	d.want("generation 2", d.seal(2), wire.DropNone)
	d.update()
	p3 := d.seal(3)
	d.update()
	d.want("two generations ahead", d.seal(4), wire.DropGeneration)
	d.want("the next generation", p3, wire.DropNone)
	d.want("two generations behind", p1, wire.DropGeneration)
	for _, generation := range []uint32{0, 1, math.MaxUint32, 5, 6} {
		p := p3
		p.generation, p.number = generation, 99
		d.want(fmt.Sprint("a forged generation ", generation), p, wire.DropGeneration)
	}
	if d.in.Forged() != 0 {
		t.Errorf("%d packets were tried", d.in.Forged())
	}
}

// The keys of generation 0 and generation 1 come from the handshake. Neither follows from the other.
func TestGenerationOneIsInstalled(t *testing.T) {
	d := &direction{t: t, l: &small, now: start}
	d.install(0, testSecret(t, aead.AES128GCM, 1))
	p0, overtaken := d.seal(1), d.seal(2)
	d.want("generation 0", p0, wire.DropNone)
	if d.out.Acknowledged(1); d.out.Due(&small, d.now.Add(24*time.Hour)) {
		t.Error("generation 0 is due for an update")
	}
	forged := p0
	forged.generation, forged.number = 1, 3
	d.want("generation 1 before it was installed", forged, wire.DropGeneration)
	if err := d.out.Install(1, testSecret(t, aead.AES128GCM, 2), d.now); err != nil {
		t.Fatal(err)
	}
	early := d.seal(4)
	d.want("generation 1 before the opener has it", early, wire.DropGeneration)
	if err := d.in.Install(1, testSecret(t, aead.AES128GCM, 2), &d.window, d.l, d.now); err != nil {
		t.Fatal(err)
	}
	d.want("the same packet later", early, wire.DropNone)
	d.want("an overtaken packet of generation 0", overtaken, wire.DropNone)
	d.want("generation 0 again", p0, wire.DropReplay)
	d.now = d.now.Add(small.Keep)
	forged = p0
	forged.number = 5
	d.want("generation 0 after a while", forged, wire.DropGeneration)
}

// A packet that fails to open changes nothing: neither the window nor the generation.
func TestForgedPacketChangesNothing(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	d.want("a packet", d.seal(1), wire.DropNone)
	forged := d.seal(2)
	good := packet{bytes.Clone(forged.sealed), forged.generation, 2}
	forged.sealed[3] ^= 1
	d.want("a changed packet", forged, wire.DropTag)
	next := good
	next.generation, next.number = 2, 9
	d.want("a packet that claims the next generation", next, wire.DropTag)
	if d.in.Generation() != 1 {
		t.Error("a forged packet changed the generation")
	}
	far := good
	far.number = 1 << 40
	d.want("a packet that claims a far number", far, wire.DropTag)
	d.want("the true packet", good, wire.DropNone)
	if d.in.Forged() != 3 {
		t.Errorf("%d packets had a wrong tag, want 3", d.in.Forged())
	}
}

// A packet does not open for another message number than it was sealed for, although its header has only 16 bits of the number.
func TestFullMessageNumberIsAuthenticated(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	sealed := d.out.Seal(nil, []byte("contents"), headerOf(1), 1, 7)
	for _, message := range []uint32{7 + 1<<16, 6, 0, 7 | 1<<31} {
		if _, r := d.in.Open(nil, sealed, headerOf(1), 1, message, d.l, d.now); r != wire.DropTag {
			t.Errorf("message %d: %v, want %v", message, r, wire.DropTag)
		}
	}
	if _, r := d.in.Open(nil, sealed, headerOf(1), 1, 7, d.l, d.now); r != wire.DropNone {
		t.Errorf("message 7: %v", r)
	}
}

// Every repetition is dropped (PROTOCOL §10.3): at once, late, behind the window, after a key update, and after the connection was idle.
func TestReplaysAreDropped(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	p1, p2, never := d.seal(1), d.seal(2), d.seal(3)
	d.want("a packet", p1, wire.DropNone)
	d.want("the packet again", p1, wire.DropReplay)
	d.want("the next packet", p2, wire.DropNone)
	d.update()
	d.want("a packet of generation 2", d.seal(4), wire.DropNone)
	d.want("a packet of generation 1 again", p1, wire.DropReplay)
	d.want("a packet far ahead", d.seal(4+Span), wire.DropNone)
	d.want("a packet below the window", never, wire.DropReplay)
	last := d.seal(5 + Span)
	d.want("the last packet before idleness", last, wire.DropNone)
	gap := d.seal(7 + Span)
	lost := d.seal(8 + Span)
	d.want("a packet behind a gap", lost, wire.DropNone)
	d.sleep()
	d.want("the last packet after idleness", last, wire.DropReplay)
	d.want("a packet from before idleness", gap, wire.DropReplay)
	d.want("a new packet after idleness", d.seal(9+Span), wire.DropNone)
	if d.in.Forged() != 0 {
		t.Error("a repetition counted as forged")
	}
}

// sleep makes the direction idle and wakes it again, with another window.
func (d *direction) sleep() {
	d.t.Helper()
	d.out.Sleep()
	if d.in.Sleep() != &d.window || d.out.Ready() || d.in.Ready() {
		d.t.Fatal("the direction does not sleep")
	}
	d.window = Window{largest: 1 << 60} // another connection used it
	if err := d.out.Wake(); err != nil {
		d.t.Fatal(err)
	}
	if err := d.in.Wake(&d.window); err != nil {
		d.t.Fatal(err)
	}
}

// An Opener that is awake continues in another window with all that it knows.
func TestWakeMovesTheWindow(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	p1, p3, p2 := d.seal(1), d.seal(3), d.seal(4)
	d.want("a packet", p1, wire.DropNone)
	d.want("a packet behind a gap", p2, wire.DropNone)
	var other Window
	if err := d.in.Wake(&other); err != nil {
		t.Fatal(err)
	}
	d.window = Window{}
	d.want("a repetition after the move", p1, wire.DropReplay)
	d.want("the packet in the gap", p3, wire.DropNone)
	if d.in.Sleep() != &other {
		t.Error("the opener has another window")
	}
}

// A sleeping Opener has no key, so that its connection must be woken before a packet opens.
func TestSleepingOpenerOpensNothing(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	p := d.seal(1)
	d.in.Sleep()
	d.want("a packet for a sleeping connection", p, wire.DropGeneration)
	if err := d.in.Wake(&d.window); err != nil {
		t.Fatal(err)
	}
	d.want("the packet after the connection woke", p, wire.DropNone)
}

// A key update waits until the peer has shown that it has the present key. A peer that shows nothing lets the key wear out.
func TestUpdateWaitsForThePeer(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	number := uint64(100)
	for range small.Update {
		number++
		d.seal(number)
	}
	if d.out.Acknowledged(99); d.out.Due(&small, d.now) {
		t.Error("an update is due although no packet of the generation arrived")
	}
	if d.out.Acknowledged(101); !d.out.Due(&small, d.now) {
		t.Error("no update is due")
	}
	d.update()
	if d.out.Due(&small, d.now) || d.out.Generation() != 2 {
		t.Error("an update is due right after an update")
	}
	if d.out.Acknowledged(number); d.out.Due(&small, d.now.Add(2*small.Age)) {
		t.Error("an update is due although no packet of the new generation was sent")
	}
	d.seal(number + 1)
	if d.out.Acknowledged(number + 1); !d.out.Due(&small, d.now.Add(small.Age)) || d.out.Due(&small, d.now.Add(small.Age-1)) {
		t.Error("the update by age is not due at its time")
	}
}

// A key seals no more than Limits.Most packets, of which the last Reserve are for the end of the connection.
func TestKeyWearsOut(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	for n := uint64(1); n <= small.Most; n++ {
		if worn := n > small.Most-Reserve; d.out.Worn(&small) != worn || d.out.Spent(&small) {
			t.Fatalf("packet %d: worn %v, spent %v", n, d.out.Worn(&small), d.out.Spent(&small))
		}
		d.seal(n)
	}
	if !d.out.Spent(&small) {
		t.Error("the key is not spent")
	}
}

// The same number is never sealed twice, whatever happens between: an update, sleep, a lower number.
func TestNumberIsSealedOnce(t *testing.T) {
	for name, between := range map[string]func(*direction){
		"at once": func(*direction) {}, "after an update": (*direction).update, "after sleep": (*direction).sleep,
		"after a reinstallation": func(d *direction) { d.install(1, testSecret(d.t, aead.AES128GCM, 7)) },
	} {
		for _, number := range []uint64{5, 4} {
			d := newDirection(t, aead.AES128GCM, &small)
			d.seal(5)
			between(d)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%d was sealed after 5, %s", number, name)
					}
				}()
				d.seal(number)
			}()
		}
	}
}

// A peer may update a few times at once, and then at a slow rate for ever.
func TestFloodOfUpdates(t *testing.T) {
	patient := newDirection(t, aead.AES128GCM, &small)
	for n := uint64(1); n < 200; n++ {
		patient.now = patient.now.Add(small.Every)
		patient.update()
		patient.want("an update a quarter of a second", patient.seal(n), wire.DropNone)
	}
	if patient.in.Flooded() {
		t.Error("a patient peer floods")
	}
	hasty := newDirection(t, aead.AES128GCM, &small)
	for n := uint64(1); n <= uint64(small.Burst)+1; n++ {
		if hasty.in.Flooded() {
			t.Fatalf("%d updates at once are a flood", n-1)
		}
		hasty.update()
		hasty.want("an update", hasty.seal(n), wire.DropNone)
	}
	if !hasty.in.Flooded() {
		t.Error("no flood was noticed")
	}
}

func TestForgersRunOut(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	p := d.seal(1)
	p.sealed[0] ^= 1
	for range small.Forged {
		if d.in.Exhausted(&small) {
			t.Fatal("exhausted too early")
		}
		d.want("a forged packet", p, wire.DropTag)
	}
	if !d.in.Exhausted(&small) {
		t.Error("forgers may continue")
	}
	d.want("an honest packet after too many forged ones", d.seal(2), wire.DropGeneration)
}

// Erased directions have no secret and no key left.
func TestEraseForgetsKeys(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &small)
	d.want("a packet", d.seal(1), wire.DropNone)
	d.out.Erase()
	d.in.Erase()
	if d.out != (Sealer{}) || d.in != (Opener{}) {
		t.Error("something is left")
	}
	if d.out.Wake() == nil || d.in.Wake(&d.window) == nil {
		t.Error("an erased direction wakes")
	}
}

func TestSealAndOpenAllocateNothing(t *testing.T) {
	d := newDirection(t, aead.AES128GCM, &Standard)
	number, plain := uint64(0), make([]byte, 1372)
	sealed, opened := make([]byte, 0, 2048), make([]byte, 0, 2048)
	present, next := headerOf(1), headerOf(2)
	if n := testing.AllocsPerRun(200, func() {
		number++
		sealed = d.out.Seal(sealed[:0], plain, present, number, 9)
		if _, r := d.in.Open(opened, sealed, present, number, 9, d.l, d.now); r != wire.DropNone {
			t.Fatal(r)
		}
		if _, r := d.in.Open(opened, sealed, present, number, 9, d.l, d.now); r != wire.DropReplay {
			t.Fatal(r)
		}
		sealed[0] ^= 1
		if _, r := d.in.Open(opened, sealed, next, number+1, 9, d.l, d.now); r != wire.DropTag {
			t.Fatal(r)
		}
		d.out.Acknowledged(number)
		d.out.Due(d.l, d.now)
	}); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

// FuzzOpener opens any bytes, of any generation and number, at any time.
func FuzzOpener(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), uint32(1), uint64(1), int64(0))
	f.Add([]byte{}, uint32(0), ^uint64(0), int64(-1))
	f.Add(make([]byte, 100), uint32(2), uint64(1)<<63, int64(time.Hour))
	f.Fuzz(func(t *testing.T, sealed []byte, generation uint32, number uint64, after int64) {
		d := newDirection(t, aead.AES128GCM, &small)
		d.now = clock.Time(after)
		if r := d.open(packet{sealed, generation, number}); r == wire.DropNone {
			t.Fatal("a packet opened that nobody sealed")
		}
		d.now = start
		d.want("an honest packet behind it", d.seal(1), wire.DropNone)
	})
}

func BenchmarkOpener(b *testing.B) {
	d := newDirection(b, aead.AES128GCM, &Standard)
	plain, sealed, opened, header := make([]byte, 64), make([]byte, 0, 128), make([]byte, 0, 128), headerOf(1)
	b.ReportAllocs()
	for number := uint64(1); b.Loop(); number++ {
		sealed = d.out.Seal(sealed[:0], plain, header, number, 0)
		if _, r := d.in.Open(opened, sealed, header, number, 0, d.l, d.now); r != wire.DropNone {
			b.Fatal(r)
		}
	}
}
