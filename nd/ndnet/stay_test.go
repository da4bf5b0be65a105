package ndnet

import (
	"io"
	"testing"
	"time"
)

// If the peer reads, a Write sends all of its bytes itself, without a hand-over to a goroutine. If the peer does not read, the
// Write leaves the rest to a goroutine.
func TestWritesOfAStreamStay(t *testing.T) {
	const size, writes = 128 << 10, 64
	n := networks(t, Config{})
	n[0].stay = time.Minute // no call of this test takes that long
	ends := pairs(t, n, 1)
	client, server := ends[0][0], ends[0][1]
	state := func() (left int, helped bool) {
		client.mu.Lock()
		defer client.mu.Unlock()
		return client.send.ring.waiting(), client.waiting.helped
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, server, writes*size)
		read <- err
	}()
	p := make([]byte, size)
	for i := range writes {
		_, err := client.Write(p)
		must(t, err)
		if left, helped := state(); left > 0 || helped {
			t.Fatalf("write %d left %d bytes, to a goroutine: %v", i, left, helped)
		}
	}
	must(t, <-read)

	n[0].stay = time.Millisecond
	for wrote := 0; ; wrote += size {
		if left, helped := state(); left > 0 {
			if !helped {
				t.Errorf("%d bytes are left without a sender", left)
			}
			_, err := io.CopyN(io.Discard, server, int64(wrote))
			must(t, err)
			break
		}
		_, err := client.Write(p)
		must(t, err)
	}
	must(t, client.Close())
	must(t, server.Close())
}

// A deadline or Close ends a Write that waits.
func TestStayEnds(t *testing.T) {
	for name, end := range map[string]func(c *Conn) error{
		"deadline": func(c *Conn) error { return c.SetWriteDeadline(time.Unix(1, 0)) },
		"close":    (*Conn).Close,
	} {
		t.Run(name, func(t *testing.T) {
			n := networks(t, Config{})
			n[0].stay = time.Hour
			ends := pairs(t, n, 1)
			client := ends[0][0]
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					if _, err := client.Write(make([]byte, 2*shortWrite)); err != nil {
						return
					}
				}
			}()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for staying := false; !staying; <-tick.C {
				client.mu.Lock()
				staying = client.waiting.ends != nil && client.waiting.inside
				client.mu.Unlock()
			}
			must(t, end(client))
			select {
			case <-done:
			case <-time.After(patience):
				t.Error("a Write still waits")
			}
			must(t, ends[0][1].Close())
			_ = client.Close() // in one of the cases it is closed already
		})
	}
}
