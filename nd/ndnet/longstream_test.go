package ndnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
)

// beginAt makes a new connection act as if start bytes have passed in each direction.
func beginAt(start uint64, ends ...*Conn) {
	for _, c := range ends {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	for _, c := range ends {
		for _, at := range []*uint64{&c.in.base, &c.in.lastBase, &c.in.written, &c.in.read, &c.in.told, &c.out.base, &c.out.written, &c.out.read} {
			*at += start
		}
	}
}

// Messages carry the low 32 bits of a stream's read and write positions. A stream works across 4 GiB in both directions, wherever
// in a ring or between two rings that is, and ends properly.
func TestStreamBeyond4GiB(t *testing.T) {
	const total = 3 << 20 // rings grow during the transfer
	for _, before := range []uint64{0, 1, minRing, 3*minRing + 7, 1 << 20, total} {
		t.Run(fmt.Sprintf("%d before", before), func(t *testing.T) {
			t.Parallel()
			client, server, stop, err := pipe(networks(t, Config{}))
			must(t, err)
			defer stop()
			ends := [2]*Conn{client.(*Conn), server.(*Conn)}
			beginAt(1<<32-before, ends[:]...)
			done := make(chan error, 4)
			for side, c := range ends {
				sent := bytes.Repeat([]byte{byte(side), 1, 2, 3, 5, 7, 11}, total/7+1)[:total]
				wanted := bytes.Repeat([]byte{byte(1 - side), 1, 2, 3, 5, 7, 11}, total/7+1)[:total]
				go func() {
					var err error
					for i, left := 1, sent; len(left) > 0 && err == nil; i = i*3%100_003 + 1 {
						n := min(i, len(left))
						_, err = c.Write(left[:n])
						left = left[n:]
					}
					done <- errors.Join(err, c.CloseWrite())
				}()
				go func() {
					got, err := io.ReadAll(c)
					if err == nil && !bytes.Equal(got, wanted) {
						err = fmt.Errorf("%d bytes are not the %d that were written", len(got), len(wanted))
					}
					done <- err
				}()
			}
			for range cap(done) {
				must(t, <-done)
			}
			for _, c := range ends {
				c.mu.Lock()
				if c.in.written != 1<<32-before+total || c.out.read > c.out.written {
					t.Errorf("%d bytes arrived, %d of %d were read", c.in.written, c.out.read, c.out.written)
				}
				c.mu.Unlock()
			}
		})
	}
}
