package ndnet

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
)

// somaxconnFile holds the kernel's limit for the backlog of a listener, which package net uses.
const somaxconnFile = "/proc/sys/net/core/somaxconn"

// defaultSomaxconn is the kernel's default for somaxconnFile.
const defaultSomaxconn = 4096

// somaxconn returns the backlog of a listener, the same as in package net.
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

// backlog holds the connections of a listener that no Accept has returned. A request takes a place before it is answered, and its
// connection keeps the place until Accept returns it. So there is always room for an answered connection.
type backlog struct {
	places  chan struct{} // one element for each occupied place
	arrived chan struct{} // has an element while connections wait

	mu     sync.Mutex
	queue  []pending // sorted by number
	closed bool
}

// pending is a connection that waits for Accept.
type pending struct {
	number uint64 // number of the request
	conn   *Conn
}

func newBacklog(size int) *backlog {
	return &backlog{places: make(chan struct{}, size), arrived: make(chan struct{}, 1)}
}

// leave frees a place.
func (b *backlog) leave() { <-b.places }

// push adds the connection of a request that holds a place. Connections may complete in any order; they wait in the order of their
// requests. It returns false if the backlog is closed.
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

// pop takes the oldest connection and frees its place. It returns nil if none waits.
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

// close makes push fail, and returns the waiting connections.
func (b *backlog) close() []pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := b.queue
	b.queue, b.closed = nil, true
	return waiting
}
