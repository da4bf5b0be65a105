package ndnet

import (
	"io"
	"testing"
	"time"
)

// busy waits until no message is in flight, and then makes the connection act as if the maximum of messages were in flight. end
// ends that.
func (c *Conn) busy() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.send.n > 0 {
		c.await(true)
	}
	c.send.requests = depth
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.send.requests -= depth
		c.wake() // a goroutine waits for results that do not come
	}
}

// withoutClock is a connection whose client sends its buffered bytes only when the test says so: on a busy machine the timer would
// be faster than the test.
func withoutClock(t *testing.T) (client, server *Conn) {
	t.Helper()
	n := networks(t, Config{})
	n[0].later = time.Hour
	n[0].stay = time.Minute // afterwards a waiting Write leaves the rest to a goroutine
	e := pairs(t, n, 1)[0]
	return e[0], e[1]
}

// left returns how many bytes are buffered, and whether a timer or a goroutine will send them.
func (c *Conn) left() (n int, armed, helped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send.ring.waiting(), c.waiting.later.armed, c.waiting.helped
}

// If short Writes cannot send, they buffer their bytes for later ones, without waiting and without a goroutine. All buffered bytes
// leave in one message.
func TestShortWritesGoTogether(t *testing.T) {
	client, server := withoutClock(t)
	open(t, client, server)
	end := client.busy()
	const writes, size = 32, 1000
	said := make([]byte, writes*size)
	for i := range said {
		said[i] = byte(i / 7)
	}
	for i := range writes {
		_, err := client.Write(said[i*size:][:size])
		must(t, err)
	}
	if n, _, helped := client.left(); n != len(said) || helped {
		t.Errorf("%d bytes are left, to a goroutine: %v", n, helped)
	}
	before := client.send.number
	end()
	client.look()
	heard := make([]byte, len(said))
	must(t, server.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.ReadFull(server, heard)
	must(t, err)
	if string(heard) != string(said) {
		t.Error("the bytes are not those that were written")
	}
	client.mu.Lock()
	defer client.mu.Unlock()
	if sent := client.send.number - before; sent > 2 { // one message, and one where the rings wrap
		t.Errorf("%d messages for the buffered bytes of %d Writes", sent, writes)
	}
}

// open makes the reader offer its first ring for Writes, and reads the data that this took.
func open(t *testing.T, client, server *Conn) {
	t.Helper()
	const n = 512 << 10
	read := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, server, n)
		read <- err
	}()
	_, err := client.Write(make([]byte, n))
	must(t, err)
	must(t, <-read)
}

// If the peer receives nothing for long, a goroutine takes over the buffered bytes, so that the timer stops.
func TestLeftIsAGoroutinesInTheEnd(t *testing.T) {
	client, server := withoutClock(t)
	open(t, client, server)
	end := client.busy()
	_, err := client.Write(make([]byte, 100))
	must(t, err)
	for i := range mostLooks {
		if n, armed, helped := client.left(); n != 100 || !armed || helped {
			t.Fatalf("after %d timer calls %d bytes are buffered, timer armed %v, goroutine %v", i, n, armed, helped)
		}
		client.look()
	}
	if n, armed, helped := client.left(); n != 100 || armed || !helped {
		t.Fatalf("in the end %d bytes are buffered, timer armed %v, goroutine %v", n, armed, helped)
	}
	awaitInside(t, client)
	end()
	must(t, server.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.ReadFull(server, make([]byte, 100))
	must(t, err)
}

// CloseWrite announces that no Write follows, so buffered bytes and the end of the stream leave without waiting for the timer.
func TestCloseWriteSendsWhatIsLeft(t *testing.T) {
	client, server := withoutClock(t)
	open(t, client, server)
	end := client.busy()
	_, err := client.Write(make([]byte, 100))
	must(t, err)
	must(t, client.CloseWrite())
	if n, armed, helped := client.left(); n != 100 || armed || !helped {
		t.Errorf("%d bytes are buffered, timer armed %v, goroutine %v", n, armed, helped)
	}
	awaitInside(t, client) // no result arrives when the other messages have arrived, as in real operation
	end()
	must(t, server.SetReadDeadline(time.Now().Add(patience)))
	got, err := io.ReadAll(server)
	if len(got) != 100 || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A CloseWrite after Writes that polled leaves no message to a poll that does not come.
func TestCloseWriteBehindPolls(t *testing.T) {
	ends := pairs(t, networks(t, Config{}), 1)
	client, server := ends[0][0], ends[0][1]
	open(t, client, server)
	client.mu.Lock()
	client.waiting.later.polls = true
	client.mu.Unlock()
	_, err := client.Write(make([]byte, 1000))
	must(t, err)
	must(t, client.CloseWrite())
	client.mu.Lock()
	if w := &client.waiting; w.later.armed || w.later.polls && !w.helped && !w.inside {
		t.Errorf("%+v, %d messages are under way", w.later, client.send.n)
	}
	client.mu.Unlock()
	must(t, server.SetReadDeadline(time.Now().Add(patience)))
	got, err := io.ReadAll(server)
	if len(got) != 1000 || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A short Write checks only now and then whether messages have arrived. A long Write checks every time, and so does a Write without
// buffered bytes before it.
func TestLooks(t *testing.T) {
	var c Conn
	if !c.looks(1) {
		t.Error("a Write without buffered bytes does not check for arrived messages")
	}
	l := &c.waiting.later
	l.armed, l.last = true, time.Now().Add(time.Hour)
	if c.looks(shortWrite) || !c.looks(shortWrite+1) {
		t.Error("a short Write checks too soon, or a long one does not check")
	}
	l.last = time.Now().Add(-lookEvery)
	if !c.looks(1) || time.Since(l.last) > time.Hour || l.last.IsZero() {
		t.Error("a short Write does not check after a while, or does not record the check")
	}
}

// Bytes that a Write has buffered while a WriteTo runs are sent, also if the sink of the WriteTo blocks.
func TestWriteToLeavesNothingBehind(t *testing.T) {
	ends := pairs(t, networks(t, Config{}), 1)
	client, server := ends[0][0], ends[0][1]
	open(t, client, server)
	end := client.busy()
	in, out := io.Pipe()
	poured := make(chan error, 1)
	go func() {
		_, err := client.WriteTo(out)
		poured <- err
	}()
	awaitInside(t, client)
	_, err := client.Write(make([]byte, 100))
	must(t, err)
	_, err = server.Write(make([]byte, 1))
	must(t, err)
	for sunk, deadline := false, time.Now().Add(patience); !sunk; time.Sleep(laterTime) {
		client.mu.Lock()
		sunk = client.copying
		client.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatal("nothing is poured into the sink")
		}
	}
	if n, armed, helped := client.left(); n != 100 || armed || !helped {
		t.Errorf("%d bytes are buffered, timer armed %v, goroutine %v", n, armed, helped)
	}
	end()
	must(t, server.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.ReadFull(server, make([]byte, 100))
	must(t, err)
	must(t, in.Close())
	if err := <-poured; err != io.ErrClosedPipe {
		t.Error(err)
	}
}

// awaitInside returns when a goroutine waits in the connection's queue.
func awaitInside(t *testing.T, c *Conn) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(laterTime) {
		c.mu.Lock()
		inside := c.waiting.inside
		c.mu.Unlock()
		if inside {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no goroutine waits in the queue")
		}
	}
}

// If a Write polled, the engine and the sent messages are polled until all have arrived or the adapter's goroutine has taken over.
// With slow Writes it takes over between two of them.
func TestWhoPolledComesBack(t *testing.T) {
	ends := pairs(t, networks(t, Config{}), 1)
	client, server := ends[0][0], ends[0][1]
	open(t, client, server)
	for range 20 {
		const writes, size = 10, 1000
		client.mu.Lock()
		client.waiting.later.polls = true // the Write before found three messages in flight
		client.mu.Unlock()
		for range writes {
			_, err := client.Write(make([]byte, size))
			must(t, err)
			client.mu.Lock()
			if l := &client.waiting.later; l.polls && client.send.n > 0 && !l.armed && !client.waiting.inside && !client.waiting.helped {
				t.Errorf("%d messages are in flight and are not polled", client.send.n)
			}
			client.mu.Unlock()
		}
		must(t, server.SetReadDeadline(time.Now().Add(patience)))
		_, err := io.ReadFull(server, make([]byte, writes*size))
		must(t, err)
		for deadline := time.Now().Add(patience); ; time.Sleep(laterTime) {
			client.mu.Lock()
			l, n := client.waiting.later, client.send.n
			client.mu.Unlock()
			if !l.armed && !l.polls && n == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d messages are under way: %+v", n, l)
			}
		}
	}
}

// A Write may poll while a goroutine sends earlier buffered bytes. The messages of the Write are polled after that goroutine has
// finished.
func TestWhoPolledBesideAHelper(t *testing.T) {
	client, server := withoutClock(t)
	open(t, client, server)
	client.mu.Lock()
	w := &client.waiting
	w.helped, w.later.polls, client.send.signDue = true, true, true
	client.flush()
	client.mu.Unlock()
	client.finish()
	client.mu.Lock()
	defer client.mu.Unlock()
	if w.helped || client.send.n == 0 || !w.later.armed {
		t.Errorf("helped %v, %d messages are in flight, timer armed %v", w.helped, client.send.n, w.later.armed)
	}
}
