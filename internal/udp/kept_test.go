package udp

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// keptLink is a socket that keeps received messages, and one that sends to it.
type keptLink struct {
	in, out *Socket
	at      netip.AddrPort
	sender  *Sender
	to      *Receiver
	next    byte
}

// newKeptLink keeps two messages of large bytes, which fit into the receive buffer of a process without privileges.
func newKeptLink(t *testing.T) *keptLink {
	t.Helper()
	n := newNetwork(t)
	in, err := n.Open(Config{Local: netip.AddrPortFrom(addrB, 0), ReceiveBuffer: 4 << 20, Keep: 2 * large})
	must(t, err)
	t.Cleanup(func() { must(t, in.Close()) })
	if in.kept.limit != 2*large {
		t.Fatalf("it keeps %d bytes, want %d", in.kept.limit, 2*large)
	}
	out, _ := open(t, n, addrA)
	return &keptLink{in: in, out: out, at: portOf(t, in, addrB), sender: NewSender(1, 1), to: newReceiver(t, 8, 16)}
}

const large = largeMessage + 1000

// send sends a unique message of n bytes, and returns it.
func (l *keptLink) send(t *testing.T, n int) []byte {
	t.Helper()
	l.next++
	data := bytes.Repeat([]byte{l.next}, n)
	if refused := send(l.sender, l.out, l.at, data, n+1); refused != 0 {
		t.Fatal("a message was refused")
	}
	return data
}

// holds returns the memory that the kernel charges to the socket.
func (l *keptLink) holds(t *testing.T) uint32 {
	t.Helper()
	m, err := readMemInfo(l.in.fd)
	must(t, err)
	return m[memInfoUsed]
}

// Messages arrive once and in order, however many are kept in the socket, and no more are kept than allowed.
func TestKeptMessagesArriveOnce(t *testing.T) {
	l := newKeptLink(t)
	kept := 0
	for i, lengths := range [][]int{{large}, {large, large, large}, {large}, {1, 2, 3}, {4}, {large}, {large, 1}, {1, large}, {large}, {large}, {}, {large, large}} {
		var want [][]byte
		for _, n := range lengths {
			want = append(want, l.send(t, n))
		}
		if got := l.to.all(l.in); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("batch %d: %d messages arrived, want %d, or other ones", i, len(got), len(want))
		}
		if again := l.to.all(l.in); len(again) > 0 {
			t.Fatalf("batch %d: %d messages arrived twice", i, len(again))
		}
		k := &l.in.kept
		if k.bytes > k.limit || len(k.lengths) > 2 {
			t.Errorf("batch %d: %d bytes of %d messages are kept", i, k.bytes, len(k.lengths))
		}
		if len(k.lengths) > 0 {
			kept++
		}
		if used := l.holds(t); (used == 0) != (len(k.lengths) == 0) {
			t.Errorf("batch %d: %d messages are kept, and the socket holds %d bytes", i, len(k.lengths), used)
		}
	}
	if kept < 4 {
		t.Errorf("messages were kept after %d batches", kept)
	}
}

// Kept messages do not make the socket readable, and new ones do. The check consumes nothing.
func TestKeptIsNotReadable(t *testing.T) {
	l := newKeptLink(t)
	for range 2 {
		l.send(t, large)
		l.to.all(l.in)
	}
	if !Readable(l.in.fd) {
		t.Fatal("nothing is kept")
	}
	if l.in.Readable() {
		t.Error("a received message makes the socket readable")
	}
	want := l.send(t, large)
	for range 2 {
		if !l.in.Readable() {
			t.Error("a new message does not make the socket readable")
		}
	}
	if got := l.to.all(l.in); len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("%d messages arrived, want one", len(got))
	}
}

// Kept messages are released to the kernel, and messages that were not received yet stay.
func TestLetGo(t *testing.T) {
	l := newKeptLink(t)
	for range 2 {
		l.send(t, large)
		l.to.all(l.in)
	}
	want := l.send(t, large)
	l.in.LetGo()
	if n := len(l.in.kept.lengths); n != 0 {
		t.Errorf("%d messages are kept", n)
	}
	if got := l.to.all(l.in); len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("%d messages arrived, want one", len(got))
	}
	if used := l.holds(t); used != 0 {
		t.Errorf("the socket holds %d bytes", used)
	}
}

// An empty message is counted and not returned, whether or not the socket was checked before. Later messages arrive.
func TestEmptyMessagesBesideKept(t *testing.T) {
	l := newKeptLink(t)
	for _, asks := range []bool{false, true} {
		for range 2 {
			l.send(t, large)
			l.to.all(l.in)
		}
		must(t, unix.Sendto(l.out.fd, nil, 0, sockaddr(l.at, 0)))
		if asks && !l.in.Readable() {
			t.Error("an empty message is not to be received")
		}
		for i, n := range []int{large, 10, large, large, large} {
			want := l.send(t, n)
			if got := l.to.all(l.in); len(got) != 1 || !bytes.Equal(got[0], want) {
				t.Errorf("asked %t: message %d: %d arrived", asks, i, len(got))
			}
		}
		if n := l.to.Unfit(); n != 1 {
			t.Errorf("asked %t: %d messages were none, want 1", asks, n)
		}
	}
}

// A message that is longer than a frame is dropped as a whole.
func TestTooLongMessagesBesideKept(t *testing.T) {
	l := newKeptLink(t)
	pool, err := NewPool(16, (large/PageSize+1)*PageSize)
	must(t, err)
	t.Cleanup(func() { must(t, pool.Close()) })
	l.to = NewReceiver(pool, 8, 8*frameSize, 1)
	for range 2 {
		l.send(t, large)
		l.to.all(l.in)
	}
	l.send(t, 2*large)
	want := l.send(t, large)
	if got := l.to.all(l.in); len(got) != 1 || !bytes.Equal(got[0], want) || l.to.Unfit() != 1 {
		t.Errorf("%d messages arrived, want one", len(got))
	}
}

// Nothing is kept if too little room would be left for later messages.
func TestKeepNeedsRoom(t *testing.T) {
	n := newNetwork(t)
	s, err := n.Open(Config{Local: netip.AddrPortFrom(addrB, 0), ReceiveBuffer: large, Keep: large})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	if s.kept.limit != 0 {
		t.Errorf("%d bytes are kept of a buffer of %d", s.kept.limit, large)
	}
}

// If too many messages are kept, by bytes or number, the oldest are released.
func TestKeptSurplus(t *testing.T) {
	many := func(n, length int) (all []int) { return slices.Repeat([]int{length}, n) }
	for _, c := range []struct {
		limit   int
		lengths []int
		want    int
	}{
		{10, nil, 0},
		{10, []int{10}, 0},
		{10, []int{11}, 1},
		{10, []int{4, 6, 1}, 1},
		{10, []int{1, 9, 9}, 2},
		{1000, many(mostKept, 1), 0},
		{1000, many(mostKept+3, 1), 3},
	} {
		k := kept{limit: c.limit}
		for _, n := range c.lengths {
			k.add(n)
		}
		if got := k.surplus(); got != c.want {
			t.Errorf("%d bytes for %v: %d are too many, want %d", c.limit, c.lengths, got, c.want)
		}
	}
}
