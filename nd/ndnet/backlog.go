package ndnet

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
)

// somaxconnFile holds the largest backlog of the kernel's own listeners, which package net asks for.
const somaxconnFile = "/proc/sys/net/core/somaxconn"

// defaultSomaxconn is what the kernel has there when nobody has changed it.
const defaultSomaxconn = 4096

// somaxconn is how many connections a listener holds for Accept: as many as one of package net.
func somaxconn() int {
	text, err := os.ReadFile(somaxconnFile)
	if err != nil {
		return defaultSomaxconn
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || n <= 0 {
		return defaultSomaxconn
	}
	return n
}

// backlog holds the connections of a listener that no Accept has taken. A request takes a place before it is answered, and its connection keeps
// the place until Accept returns it: so a connection that was answered always has room.
type backlog struct {
	places  chan struct{} // one for each place that is taken
	arrived chan struct{} // has an element while connections wait

	mu     sync.Mutex
	queue  []pending // by number
	closed bool
}

// pending is a connection that waits for Accept.
type pending struct {
	number uint64 // of its request
	conn   *Conn
}

func newBacklog(size int) *backlog {
	return &backlog{places: make(chan struct{}, size), arrived: make(chan struct{}, 1)}
}

// leave gives a place back.
func (b *backlog) leave() { <-b.places }

// push adds the connection of a request that has a place. Connections that complete together are answered in any order, and wait in that of their
// requests. It reports false when the backlog is closed.
func (b *backlog) push(number uint64, c *Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	at := len(b.queue)
	for at > 0 && b.queue[at-1].number > number {
		at--
	}
	b.queue = slices.Insert(b.queue, at, pending{number, c})
	b.signal()
	return true
}

// pop takes the oldest connection and gives its place back; nil when none waits.
func (b *backlog) pop() *Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return nil
	}
	c := b.queue[0].conn
	b.queue[0] = pending{}
	b.queue = b.queue[1:]
	if len(b.queue) > 0 {
		b.signal() // another Accept may wait
	}
	b.leave()
	return c
}

// signal wakes an Accept. The caller holds mu.
func (b *backlog) signal() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// close takes no more connections, and returns those that wait.
func (b *backlog) close() []pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := b.queue
	b.queue, b.closed = nil, true
	return waiting
}
