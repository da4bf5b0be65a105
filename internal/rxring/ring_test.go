package rxring

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// size is the length of the test rings: one page, the smallest possible.
var size = os.Getpagesize()

// fake stands for the kernel: a file for the ring and one for the page beside it. A file cannot be mapped twice in a row like the
// kernel's ring, so bytes are written to both places.
type fake struct {
	ring, shared int    // descriptors
	memory, page []byte // the same files, mapped
	at           uint64 // position of the next record
}

// newFake makes an empty ring. Its first record begins at start.
func newFake(t *testing.T, start uint64) *fake {
	t.Helper()
	k := &fake{at: start}
	file := func(length int) (fd int, memory []byte) {
		fd, err := unix.MemfdCreate("ring", unix.MFD_CLOEXEC)
		testhelp.Must(t, err)
		t.Cleanup(func() { testhelp.Must(t, unix.Close(fd)) })
		testhelp.Must(t, unix.Ftruncate(fd, int64(length)))
		memory, err = unix.Mmap(fd, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		testhelp.Must(t, err)
		t.Cleanup(func() { testhelp.Must(t, unix.Munmap(memory)) })
		return fd, memory
	}
	k.ring, k.memory = file(2*size + 2*size)
	k.shared, k.page = file(size)
	word64(k.memory, 0).Store(start)
	k.produce(start)
	return k
}

// open opens the ring until the test ends.
func (k *fake) open(t *testing.T) *Ring {
	t.Helper()
	r, err := Open(k.ring, k.shared, size)
	testhelp.Must(t, err)
	t.Cleanup(func() { testhelp.Must(t, r.Close()) })
	return r
}

// put writes bytes at a position, in both places.
func (k *fake) put(at uint64, b []byte) {
	data := k.memory[2*size:]
	for i, v := range b {
		off := (at + uint64(i)) % uint64(size)
		data[off], data[off+uint64(size)] = v, v
	}
}

// header writes the first word of a record, which the kernel writes last.
func (k *fake) header(at uint64, length uint32) {
	k.put(at, binary.LittleEndian.AppendUint32(nil, length))
}

// reserve begins a record of this length, which is busy at first.
func (k *fake) reserve(length uint32) (at uint64) {
	at = k.at
	k.header(at, length|busy)
	k.at += uint64(length+headerLen+7) &^ 7
	k.produce(k.at)
	return at
}

// produce sets the position of the producer.
func (k *fake) produce(at uint64) { word64(k.memory, size).Store(at) }

// cameAt is the arrival time of packets.
const cameAt = 1 << 40

var senderMAC = [6]byte{2, 0, 0, 0, 0, 7}

// arrival returns the record that the program writes for a packet.
func arrival(payload []byte, port uint16, marked bool, length uint32) []byte {
	b := make([]byte, 0, arrivalLen+len(payload))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7)
	b = binary.BigEndian.AppendUint16(b, port)
	mark := byte(0)
	if marked {
		mark = 1
	}
	b = append(b, mark, 0)
	b = binary.LittleEndian.AppendUint32(b, length)
	b = append(b, senderMAC[:]...)
	b = append(b, 0, 0)
	b = binary.NativeEndian.AppendUint64(b, cameAt)
	return append(b, payload...)
}

// send puts a complete packet into the ring.
func (k *fake) send(payload string, port uint16, marked bool) {
	b := arrival([]byte(payload), port, marked, uint32(len(payload)))
	at := k.reserve(uint32(len(b)))
	k.put(at+headerLen, b)
	k.header(at, uint32(len(b)))
}

// discard puts a discarded record into the ring.
func (k *fake) discard(length uint32) { k.header(k.reserve(length), length|discarded) }

// want reads the next packet and compares its payload.
func want(t *testing.T, r *Ring, payload string) (p Packet) {
	t.Helper()
	if !r.Next(&p) || string(p.Data) != payload {
		t.Fatalf("payload %q, want %q", p.Data, payload)
	}
	if cap(p.Data) != len(p.Data) {
		t.Errorf("%q has a capacity of %d beyond its length", p.Data, cap(p.Data))
	}
	return p
}

// wantNone checks that there is no packet to read.
func wantNone(t *testing.T, r *Ring) {
	t.Helper()
	var p Packet
	if r.Next(&p) {
		t.Fatalf("payload %q, want no packet", p.Data)
	}
}

func TestRingInOrder(t *testing.T) {
	k := newFake(t, 0)
	r := k.open(t)
	if r.Waiting() {
		t.Error("an empty ring has something waiting")
	}
	wantNone(t, r)
	k.send("first", 0x1234, false)
	k.discard(100)
	k.discard(0)
	k.send("second", 7, true)
	k.discard(1)
	wantNone(t, r) // before Edge is called
	if !r.Unread() {
		t.Error("nothing is unread")
	}
	r.Edge()
	p := want(t, r, "first")
	if p.IP != [16]byte{10: 0xff, 0xff, 192, 0, 2, 7} || p.Port != 0x1234 || p.Marked || p.MAC != senderMAC || p.Arrived != cameAt {
		t.Errorf("from %v at %x port %#x, marked %t, at %d", p.IP, p.MAC, p.Port, p.Marked, p.Arrived)
	}
	if p = want(t, r, "second"); p.Port != 7 || !p.Marked {
		t.Errorf("from port %d, marked %t", p.Port, p.Marked)
	}
	wantNone(t, r)
	if r.Unread() {
		t.Error("something is unread behind a record that was discarded")
	}
	if !r.Waiting() {
		t.Error("a record that was read and not released does not block the producer")
	}
	if r.Release(); r.Waiting() {
		t.Error("something waits behind a record that was discarded")
	}
}

// A record that is being written blocks the records behind it.
func TestRingBusy(t *testing.T) {
	k := newFake(t, 0)
	r := k.open(t)
	b := arrival([]byte("slow"), 7, false, 4)
	at := k.reserve(uint32(len(b)))
	k.send("fast", 7, false)
	r.Edge()
	for range 2 {
		wantNone(t, r)
		if !r.Waiting() {
			t.Error("a record that is being written does not wait")
		}
	}
	k.put(at+headerLen, b)
	k.header(at, uint32(len(b)))
	want(t, r, "slow")
	want(t, r, "fast")
	wantNone(t, r)
}

// A packet that arrives after a call of Edge is visible after the next call.
func TestRingEdge(t *testing.T) {
	k := newFake(t, 0)
	r := k.open(t)
	k.send("before", 7, false)
	r.Edge()
	k.send("behind", 7, false)
	want(t, r, "before")
	wantNone(t, r)
	if !r.Waiting() {
		t.Error("a record behind Edge is visible")
	}
	r.Edge()
	want(t, r, "behind")
	wantNone(t, r)
}

func TestRingRelease(t *testing.T) {
	k := newFake(t, 0)
	r := k.open(t)
	released := func(want uint64) {
		t.Helper()
		if at := word64(k.memory, 0).Load(); at != want {
			t.Errorf("the consumer is at %d, want %d", at, want)
		}
	}
	k.send("one", 7, false)
	one := k.at
	k.send("two", 7, false)
	r.Edge()
	want(t, r, "one")
	released(0)
	r.Release()
	released(one)
	want(t, r, "two")
	released(one)
	r.Release()
	released(k.at)
	// The next reader that opens the ring continues at the same position.
	k.send("three", 7, false)
	again := k.open(t)
	again.Edge()
	want(t, again, "three")
}

// Records of every length wrap around the data many times, also at positions beyond 32 bits.
func TestRingWraps(t *testing.T) {
	for _, start := range []uint64{0, 1<<32 - 4096, 1<<64 - 8192} {
		k := newFake(t, start)
		r := k.open(t)
		packets, payload := 0, make([]byte, 1024)
		for round := range 40 {
			var sent []string
			for len(sent) < 3 {
				n := (packets*37 + round) % len(payload)
				for i := range payload[:n] {
					payload[i] = byte(packets + i)
				}
				sent = append(sent, string(payload[:n]))
				k.send(sent[len(sent)-1], uint16(packets), packets%2 == 0)
				packets++
			}
			r.Edge()
			for i, payload := range sent {
				p := want(t, r, payload)
				if n := packets - 3 + i; p.Port != uint16(n) || p.Marked != (n%2 == 0) {
					t.Fatalf("packet %d from port %d, marked %t", n, p.Port, p.Marked)
				}
			}
			wantNone(t, r)
			r.Release()
		}
	}
}

// A ring may be full to its last byte.
func TestRingFull(t *testing.T) {
	k := newFake(t, 40)
	r := k.open(t)
	for range 4 {
		k.send(string(make([]byte, size/4-headerLen-arrivalLen)), 7, false)
	}
	r.Edge()
	for range 4 {
		want(t, r, string(make([]byte, size/4-headerLen-arrivalLen)))
	}
	wantNone(t, r)
}

// A packet behind one of the socket waits until the latter is known to have arrived, also if the counter wraps around.
func TestRingBehind(t *testing.T) {
	k := newFake(t, 0)
	r := k.open(t)
	const before = 1<<16 - 1
	for n := range 3 {
		b := arrival([]byte{byte('a' + n)}, 7, false, 1)
		binary.NativeEndian.PutUint16(b[stampAt:], uint16(before+n))
		at := k.reserve(uint32(len(b)))
		k.put(at+headerLen, b)
		k.header(at, uint32(len(b)))
	}
	r.Edge()
	for n := range 3 {
		r.Behind(uint64(before + n - 1))
		wantNone(t, r)
		if got := r.Ahead(9); got != 1 {
			t.Errorf("%d packets of the socket come before packet %d, want 1", got, n)
		}
		r.Behind(uint64(before + n))
		want(t, r, string(rune('a'+n)))
	}
	wantNone(t, r)
	if got := r.Ahead(9); got != 9 {
		t.Errorf("%d packets of the socket come before nothing, want 9", got)
	}
}

// Ahead examines a record that Next has not validated, so the record may have any length.
func TestRingAheadOfADamagedRecord(t *testing.T) {
	for _, length := range []uint32{0, arrivalLen - 1, uint32(size), discarded - 1} {
		k := newFake(t, uint64(size-8))
		r := k.open(t)
		k.header(k.reserve(8), length)
		r.Edge()
		if got := r.Ahead(9); got < 0 || got > 9 {
			t.Errorf("a length of %d: %d packets come before", length, got)
		}
	}
}

func TestRingPage(t *testing.T) {
	k := newFake(t, 0)
	r := k.open(t)
	for _, now := range []Sleep{AtSocket, AtSocket, AtRing, Awake} {
		r.Sleeps(now)
		if got := word32(k.page, 0).Load(); got != uint32(now) {
			t.Errorf("sleeps %d, want %d", got, now)
		}
	}
	word64(k.page, passedAt).Store(1<<40 + 1)
	if r.Passed() != 1<<40+1 {
		t.Errorf("%d passed", r.Passed())
	}
	r.CountBulk(0x1234)
	if got := binary.BigEndian.Uint16(k.page[bulkPortAt:]); got != 0x1234 || r.Bulk() != 0 {
		t.Errorf("port %#x and %d packets to it", got, r.Bulk())
	}
	word64(k.page, bulkAt).Store(1<<41 + 2)
	if r.Bulk() != 1<<41+2 || r.Passed() != 1<<40+1 || word32(k.page, 0).Load() != uint32(Awake) {
		t.Errorf("%d packets to the bulk port, %d passed", r.Bulk(), r.Passed())
	}
}

func TestRingOpenRefuses(t *testing.T) {
	k := newFake(t, 0)
	for _, n := range []int{-size, -1, 0, 1, 8, size / 2, size - 1, size + 1, 3 * size, 1<<62 + 1, 1 << 62} {
		if r, err := Open(k.ring, k.shared, n); err == nil {
			t.Errorf("a ring of %d bytes was opened", n)
			testhelp.Must(t, r.Close())
		} else {
			t.Log(err)
		}
	}
	for _, fds := range [][2]int{{-1, k.shared}, {k.ring, -1}} {
		if r, err := Open(fds[0], fds[1], size); err == nil {
			t.Errorf("a ring of the descriptors %d was opened", fds)
			testhelp.Must(t, r.Close())
		}
	}
	if r, err := Open(newFake(t, 4095).ring, k.shared, size); err == nil {
		t.Error("a ring whose consumer is within a record was opened")
		testhelp.Must(t, r.Close())
	}
}

func TestRingClose(t *testing.T) {
	k := newFake(t, 0)
	r := k.open(t)
	k.send("unread", 7, false)
	r.Edge()
	for range 2 {
		testhelp.Must(t, r.Close())
	}
	if r.data != nil {
		t.Error("memory that is not mapped any more can be read")
	}
}

// Contents that the kernel never writes end the ring, because the process that supplied the descriptors may be faulty or hostile.
func TestRingDamaged(t *testing.T) {
	record := func(length, payload uint32) func(*fake) {
		return func(k *fake) {
			b := arrival(bytes.Repeat([]byte{0xee}, 8), 7, false, payload)
			at := k.reserve(uint32(len(b)))
			k.put(at+headerLen, b)
			k.header(at, length)
		}
	}
	const whole = arrivalLen + 8
	for _, c := range []struct {
		name   string
		damage func(*fake)
	}{
		{"a payload of a byte more than the record", record(whole, 9)},
		{"a payload of all there may be", record(whole, 1<<32-1)},
		{"a payload whose end wraps", record(whole, 1<<32-arrivalLen)},
		{"a record without room for a packet", record(arrivalLen-1, 0)},
		{"an empty record", record(0, 0)},
		{"a record beyond the producer", record(whole+8, 8)},
		{"a record of the whole ring", record(uint32(size), 8)},
		{"a record of all there may be", record(discarded-1, 8)},
		{"a discarded record beyond the producer", record(discarded|(whole+1), 8)},
		{"a discarded record of all there may be", record(2*discarded-1, 8)},
		{"a producer behind the consumer", func(k *fake) { k.produce(k.at - 8) }},
		{"a producer further ahead than the ring is long", func(k *fake) { k.produce(k.at + uint64(size) + 8) }},
		{"a record longer than the ring, and a producer beyond", func(k *fake) {
			k.header(k.at, uint32(4*size))
			k.produce(k.at + uint64(8*size))
		}},
		{"a producer anywhere", func(k *fake) { k.produce(1 << 63) }},
		{"a producer within a header", func(k *fake) { k.produce(k.at + 4) }},
	} {
		for _, start := range []uint64{0, uint64(size) - 48, uint64(size) - 8, 1<<64 - 64} { // some records end behind the data
			t.Run(fmt.Sprint(c.name, ", from ", start), func(t *testing.T) {
				k := newFake(t, start)
				r := k.open(t)
				k.send("good", 7, false)
				r.Edge()
				want(t, r, "good")
				c.damage(k)
				r.Edge()
				wantNone(t, r)
				if r.Waiting() {
					t.Error("a check before a sleep would loop for ever")
				}
				k.send("too late", 7, false)
				r.Edge()
				wantNone(t, r)
				r.Release()
			})
		}
	}
}

// FuzzRing fills rings with noise. No byte outside of the data is returned, and no read loops for ever.
func FuzzRing(f *testing.F) {
	for _, seed := range []string{"", "\x20\x00\x00\x00", "\x18\x00\x00\x40\x00\x00\x00\x00\x20", string(arrival([]byte("payload"), 7, true, 7))} {
		f.Add(uint64(0), uint64(64), []byte(seed))
		f.Add(uint64(size-8), uint64(2*size-8), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, consumer, producer uint64, noise []byte) {
		k := newFake(t, consumer)
		r, err := Open(k.ring, k.shared, size)
		if err != nil {
			return // its consumer position is not at a record
		}
		defer func() { testhelp.Must(t, r.Close()) }()
		for at := uint64(0); len(noise) > 0 && at < uint64(size); at += uint64(len(noise)) {
			k.put(consumer+at, noise[:min(uint64(len(noise)), uint64(size)-at)])
		}
		k.produce(producer)
		r.Edge()
		var p Packet
		for read := 0; r.Next(&p); {
			if read += len(p.Data) + arrivalLen; read > size {
				t.Fatalf("%d bytes of a ring of %d", read, size)
			}
			bytes.Count(p.Data, []byte{0}) // the data are readable memory
		}
	})
}
