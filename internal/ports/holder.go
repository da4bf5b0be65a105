package ports

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
)

const (
	// waiters is the number of adapters that learn at once that the holder has ended. Further adapters try again and again.
	waiters = 256
	// firstPause and askAgain are the shortest and the longest time before the next attempt of an adapter. They apply if the adapter did
	// not learn that the holder ended, or if its last attempt was too early or too late.
	firstPause, askAgain = time.Millisecond, 250 * time.Millisecond
)

// Holding is the name of an address's well-known port. At most one process of the machine holds it.
type Holding struct {
	network *udp.Network
	name    string

	mu       sync.Mutex
	listener net.Listener // while this process holds the name
	running  sync.WaitGroup
}

// NewHolding returns the name of an address and its well-known UDP port. The name is not taken yet.
func NewHolding(network *udp.Network, at netip.AddrPort) *Holding {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return &Holding{network: network, name: placeOf(at).holder()}
}

// Try takes the name. The error is ErrTaken if another socket has the name.
func (h *Holding) Try() error {
	fd, err := h.network.Socket(unix.AF_UNIX, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	if err := bind(fd, h.name); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	if err := unix.Listen(fd, waiters); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), h.name)
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listener = l
	h.running.Go(func() { accept(l) })
	return nil
}

// accept keeps the connections of waiting adapters open until the name is released.
func accept(l net.Listener) {
	ctx, end := context.WithCancel(context.Background())
	slots := make(chan struct{}, waiters)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor is free
			time.Sleep(askAgain)
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			c.Close() // it asks again
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			var b [1]byte
			_, _ = c.Read(b[:]) // a waiting adapter sends nothing, and then ends
		})
	}
}

// Await waits until this process has the name, and reports whether it has. It returns false if ctx ended before.
func (h *Holding) Await(ctx context.Context) bool {
	for pause := firstPause; ; pause = min(2*pause, askAgain) {
		began := time.Now()
		_ = h.watch(ctx) // if the holder cannot be watched, the next attempt comes soon
		if ctx.Err() != nil {
			return false
		}
		if h.Try() == nil {
			return true
		}
		if time.Since(began) > askAgain {
			pause = firstPause // the holder ended after a long time, and may not have released the name yet
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}

// watch returns when the holder has ended. The error says that the holder could not be watched.
func (h *Holding) watch(ctx context.Context) error {
	fd, err := h.network.Socket(unix.AF_UNIX, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: h.name}); err != nil {
		return errors.Join(err, unix.Close(fd)) // the holder has ended, does not listen yet, or has too many waiting adapters
	}
	f := os.NewFile(uintptr(fd), h.name)
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var b [1]byte
	_, _ = conn.Read(b[:]) // the holder sends nothing, and then ends
	return nil
}

// Close releases the name.
func (h *Holding) Close() error {
	h.mu.Lock()
	l := h.listener
	h.listener = nil
	h.mu.Unlock()
	if l == nil {
		return nil
	}
	err := l.Close()
	h.running.Wait()
	return err
}
