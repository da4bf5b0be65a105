//go:build cgo

package main

// #include "ndxdp.h"
import "C"

import (
	"net/netip"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/stackroom"
)

// eventQueue has the events of connectors and listeners. It holds a few events of each connector, and as many requests of each listener
// as its backlog admits.
type eventQueue struct {
	descriptor *signal

	mu     sync.Mutex
	events []*event // oldest first; guarded by mu
	closed bool     // guarded by mu
}

// event is an event with the objects that it is about.
type event struct {
	ev        C.struct_ndx_event // as the program gets it
	connector *connector
	listener  *listener // of a request that was not read; nil for other events
}

// push adds an event. It fails if the queue is closed.
func (q *eventQueue) push(e *event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.events = append(q.events, e)
	q.descriptor.raise()
	return true
}

// pop removes the oldest event, or returns nil.
func (q *eventQueue) pop() *event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return nil
	}
	e := q.events[0]
	q.events = slices.Delete(q.events, 0, 1)
	if len(q.events) == 0 {
		q.descriptor.clear()
	}
	return e
}

// remove removes and returns the events that match.
func (q *eventQueue) remove(match func(*event) bool) (removed []*event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = slices.DeleteFunc(q.events, func(e *event) bool {
		gone := match(e)
		if gone {
			removed = append(removed, e)
		}
		return gone
	})
	if len(q.events) == 0 && !q.closed {
		q.descriptor.clear()
	}
	return removed
}

// refuse removes the events that match, and refuses the requests among them: the program does not know their connectors.
func (q *eventQueue) refuse(match func(*event) bool) {
	for _, e := range q.remove(match) {
		if e.listener != nil {
			e.connector.close()
		}
	}
}

// private copies private data into an event.
func (e *event) private(data []byte) {
	to := unsafe.Slice((*byte)(unsafe.Pointer(&e.ev.private_data[0])), len(e.ev.private_data))
	e.ev.private_length = C.uint32_t(copy(to, data))
}

// addresses writes the addresses of a connection into an event.
func (e *event) addresses(local, peer netip.AddrPort) {
	toC(&e.ev.local, local)
	toC(&e.ev.peer, peer)
}

//export ndxgo_event_queue_create
func ndxgo_event_queue_create(out *C.uint64_t, cause *C.char) status {
	stackroom.Reserve()
	d, err := newSignal()
	if err != nil {
		explain(cause, err)
		return noResources
	}
	h := queues.put(&eventQueue{descriptor: d})
	if h == 0 {
		d.close()
		return noResources
	}
	*out = C.uint64_t(h)
	return success
}

//export ndxgo_event_queue_close
func ndxgo_event_queue_close(h C.uint64_t) status {
	q, ok := queues.take(h)
	if !ok {
		return invalidHandle
	}
	q.mu.Lock()
	q.closed = true
	q.descriptor.raise() // callers of ndx_event_queue_read that wait
	q.mu.Unlock()
	q.refuse(func(*event) bool { return true })
	q.descriptor.close()
	return success
}

//export ndxgo_event_queue_descriptor
func ndxgo_event_queue_descriptor(h C.uint64_t, fd *C.int) status {
	q, ok := queues.get(h)
	if !ok {
		return invalidHandle
	}
	*fd = C.int(q.descriptor.fd)
	return success
}

//export ndxgo_event_queue_read
func ndxgo_event_queue_read(h C.uint64_t, out *C.struct_ndx_event, fd *C.int) C.int32_t {
	q, ok := queues.get(h)
	if !ok {
		return negative(invalidHandle)
	}
	*fd = C.int(q.descriptor.fd)
	e := q.pop()
	if e == nil {
		return 0
	}
	*out = e.ev
	return 1
}

// negative returns a failed status as a function returns it that otherwise returns a count.
func negative(s status) C.int32_t { return C.int32_t(int32(uint32(s))) }

// signal is a file descriptor that is readable after raise, until clear.
type signal struct{ fd int }

func newSignal() (*signal, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return &signal{fd}, err
}

// raise may be called with an engine locked: the write never blocks. The Go scheduler is not told of it, because it is too short.
func (s *signal) raise() {
	one := [8]byte{1}
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(s.fd), uintptr(unsafe.Pointer(&one)), 8)
}

func (s *signal) clear() {
	var count [8]byte
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(s.fd), uintptr(unsafe.Pointer(&count)), 8)
}

func (s *signal) close() { _ = unix.Close(s.fd) }
