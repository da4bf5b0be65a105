package ndnet

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// wirePair is one direction of a stream without a connection: the objects of writer and reader, and the messages between them.
type wirePair struct {
	rng    *rand.Rand
	send   sendRing
	out    outgoing
	in     incoming
	rings  map[uint64][]byte // by the address in the grant
	next   uint64
	flight []message
	want   []byte // written and not read yet
}

func newWirePair(seed uint64) *wirePair {
	w := &wirePair{rng: rand.New(rand.NewPCG(seed, 59)), rings: map[uint64][]byte{}, next: 1 << 20}
	w.in.now = make([]byte, minRing)
	w.out.ring = grant{size: minRing}
	w.send.mem = make([]byte, minBlock)
	return w
}

// write puts bytes into the send ring, which grows now and then.
func (w *wirePair) write() {
	if w.rng.IntN(8) == 0 && w.send.inFlight() == 0 {
		w.send.moveTo(make([]byte, max(minBlock<<w.rng.IntN(4), len(w.send.mem))))
	}
	space := w.send.space()
	n := w.rng.IntN(len(space) + 1)
	for i := range space[:n] {
		space[i] = byte(w.rng.Uint32())
	}
	w.want = append(w.want, space[:n]...)
	w.send.tail += uint64(n)
}

// post sends as much as the ring accepts, as a Write or in a message.
func (w *wirePair) post() {
	m := message{}
	if w.out.change() {
		m.flags |= flagSwitched
	}
	n := min(w.send.waiting(), w.out.room())
	if n > 0 && w.out.direct() {
		if w.out.restart() {
			m.flags |= flagRestart
		}
		addr, fits := w.out.at(n)
		a, b := w.send.next(fits)
		ring := w.rings[w.out.ring.addr]
		copy(ring[addr-w.out.ring.addr:], slices.Concat(a, b))
		n = fits
	} else {
		n = min(n, inlineMax)
		a, b := w.send.next(n)
		m.data = slices.Concat(a, b)
	}
	w.send.posted += uint64(n)
	w.out.written += uint64(n)
	m.written = uint32(w.out.written)
	w.flight = append(w.flight, m)
}

// deliver makes the oldest message arrive, and acknowledges it.
func (w *wirePair) deliver(t *testing.T) {
	if len(w.flight) == 0 {
		return
	}
	m := w.flight[0]
	w.flight = w.flight[1:]
	before := w.in.written
	if _, err := w.in.arrived(&m); err != nil {
		t.Fatal(err)
	}
	w.in.consume(0)
	w.send.head += w.in.written - before
}

// read reads bytes, sometimes sends credits to the writer, and now and then offers another ring.
func (w *wirePair) read(t *testing.T) {
	p := w.in.peek()
	p = p[:w.rng.IntN(len(p)+1)]
	if !bytes.Equal(p, w.want[:len(p)]) {
		t.Fatalf("%d bytes at %d are others than were written", len(p), w.in.read)
	}
	w.want = w.want[len(p):]
	w.in.consume(len(p))
	if w.rng.IntN(2) == 0 {
		must(t, w.out.credited(w.in.tell()))
	}
	if w.rng.IntN(20) == 0 && w.in.next == nil && w.in.before == nil {
		ring := make([]byte, minRing<<w.rng.IntN(4))
		w.next += 1 << 20
		w.rings[w.next] = ring
		w.in.next = ring
		if err := w.out.offer(grant{w.next, 7, uint32(len(ring))}); err != nil {
			t.Fatal(err)
		}
	}
}

// In any order of writes, messages, reads, credits and changes of rings, the bytes read are the bytes written.
func TestRingsModel(t *testing.T) {
	for seed := range uint64(50) {
		w, begin := newWirePair(seed), uint64(0)
		if seed%2 == 0 { // positions exceed 2^32
			begin = 1<<32 - 3000
			w.out.written, w.out.read, w.out.base = begin, begin, begin
			w.in.written, w.in.read, w.in.base, w.in.told = w.out.written, w.out.read, w.out.base, w.out.read
		}
		for range 3000 {
			switch w.rng.IntN(4) {
			case 0:
				w.write()
			case 1:
				w.post()
			case 2:
				w.deliver(t)
			case 3:
				w.read(t)
			}
		}
		if n := w.in.read - begin; n < 5000 {
			t.Errorf("seed %d: %d bytes came through", seed, n)
		}
	}
}

// Answers on a connection use the same bytes of both rings, because empty rings start at their beginning. Only the first answer
// touches new pages.
func TestAnswersUseTheSameMemory(t *testing.T) {
	client, server := newPipe(t, Config{})
	answer, got := make([]byte, 5000), make([]byte, 5000)
	for n := range 20 {
		_, err := client.Write([]byte("request"))
		must(t, err)
		_, err = io.ReadFull(server, got[:7])
		must(t, err)
		rand.NewChaCha8([32]byte{byte(n)}).Read(answer)
		_, err = server.Write(answer)
		must(t, err)
		_, err = io.ReadFull(client, got)
		must(t, err)
		if !bytes.Equal(got, answer) {
			t.Fatalf("answer %d is wrong", n)
		}
		server.mu.Lock()
		sent, wrote := server.send.ring.tail-server.send.ring.base, server.out.written-server.out.base
		server.mu.Unlock()
		if n > 3 && (sent != uint64(len(answer)) || wrote != uint64(len(answer))) { // the rings have reached their size
			t.Errorf("answer %d ends at %d of the send ring and %d of the peer's ring, want %d", n, sent, wrote, len(answer))
		}
	}
}

// Invalid messages of a peer are refused.
func TestLiesOfAPeer(t *testing.T) {
	out := outgoing{ring: grant{size: minRing}, written: 100, read: 50}
	for _, lie := range []uint32{49, 101, 0, 1 << 31} {
		if err := out.credited(lie); !errors.Is(err, errCredit) {
			t.Errorf("read up to %d of 50 to 100: %v", lie, err)
		}
	}
	must(t, out.offer(grant{1, 2, minRing}))
	if err := out.offer(grant{1, 2, minRing}); !errors.Is(err, errOffer) {
		t.Errorf("two offers: %v", err)
	}
	in := incoming{now: make([]byte, minRing), written: 100, read: 50}
	for _, lie := range []message{
		{written: 50 + minRing + 1},
		{written: 99},
		{written: 100, data: []byte("x")},
		{written: 1 << 31},
		{written: 101, flags: flagSwitched},
		{written: 101, flags: flagRestart},
	} {
		was := in
		if _, err := in.arrived(&lie); !errors.Is(err, errWritten) && !errors.Is(err, errSwitched) && !errors.Is(err, errRestart) {
			t.Errorf("%+v: %v", lie, err)
		}
		in = was
	}
	in.next = make([]byte, minRing) // data in the old ring do not use space in the new one
	if _, err := in.arrived(&message{written: 100 + minRing, flags: flagSwitched}); err != nil {
		t.Error(err)
	}
	c := newCredits(minReceives)
	c.sent = 3
	for _, lie := range []uint16{minReceives - 1, 2, 3 + maxReceives + 1, 1 << 15} {
		if err := c.granted(lie); !errors.Is(err, errReceives) {
			t.Errorf("%d receives posted: %v", lie, err)
		}
	}
	must(t, c.granted(3+maxReceives))
}

// Bytes behind the end of a stream end the connection with EPROTO, for every reader. A repeated end does not.
func TestBytesBehindTheEnd(t *testing.T) {
	c := pairs(t, networks(t, Config{}), 1)[0][1]
	c.mu.Lock()
	defer c.mu.Unlock()
	say := func(flags uint8, written uint64, data string) error {
		m := message{flags: flags, receives: c.credits.limit, written: uint32(written), read: uint32(c.out.read)}
		return c.received(append(m.appendTo(nil), data...))
	}
	at := c.in.written
	must(t, say(flagEnd, at+3, "end"))
	must(t, say(flagEnd, at+3, ""))
	if err := say(flagEnd, at+4, "x"); !errors.Is(err, errAfterEnd) {
		t.Errorf("a byte behind the end: %v", err)
	}
	if err := say(0, at+4, "x"); !errors.Is(err, errAfterEnd) {
		t.Errorf("a byte of a message without an end: %v", err)
	}
	if string(c.in.peek()) != "end" {
		t.Errorf("%q is to be read", c.in.peek())
	}
}

// Both sides send as many messages as they may, in any order, and answer only when they must. Neither side ever runs out of
// credits.
func TestCreditsNeverRunDry(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 60))
		sides := [2]credits{newCredits(depth), newCredits(depth)}
		var flight [2][]uint16 // to that side
		said := 0
		quiet := false
		for range 500 {
			from := rng.IntN(2)
			c := &sides[from]
			if rng.IntN(40) == 0 {
				quiet = !quiet // no message arrives for a while
			}
			switch k := kind(rng.IntN(3)); {
			case !quiet && rng.IntN(2) == 0 && len(flight[from]) > 0:
				must(t, c.granted(flight[from][0]))
				flight[from] = flight[from][1:]
				c.posted++
			case k == kindReceives && !c.due():
			case c.may(k):
				flight[1-from] = append(flight[1-from], c.send())
				said++
			}
		}
		for range 100 { // messages in flight arrive, and due answers are sent
			for i := range sides {
				for _, posted := range flight[i] {
					must(t, sides[i].granted(posted))
					sides[i].posted++
				}
				flight[i] = nil
				if sides[i].due() && sides[i].may(kindReceives) {
					flight[1-i] = append(flight[1-i], sides[i].send())
				}
			}
		}
		if !sides[0].may(kindData) || !sides[1].may(kindData) {
			t.Fatalf("seed %d: after %d messages %+v", seed, said, sides)
		}
	}
}
