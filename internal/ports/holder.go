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
	// waiters is how many adapters are told of the holder's end at once; more ask again and again.
	waiters = 256
	// firstPause and askAgain are the shortest and the longest time before the next attempt of an adapter that was not told of the
	// holder's end, or that came too late or too early.
	firstPause, askAgain = time.Millisecond, 250 * time.Millisecond
)

// Holding is the name of an address's well-known port: at most one process of the machine has it.
type Holding struct {
	network *udp.Network
	name    string

	mu       sync.Mutex
	listener net.Listener // while it is ours
	running  sync.WaitGroup
}

// NewHolding returns the name of an address and its well-known UDP port. We have not tried for it yet.
func NewHolding(network *udp.Network, at netip.AddrPort) *Holding {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return &Holding{network: network, name: placeOf(at).holder()}
}

// Try takes the name. The error is ErrTaken when another one has it.
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

// accept keeps whoever waits until the name is given up.
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
		if err != nil { // for want of descriptors
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
			_, _ = c.Read(b[:]) // whoever waits says nothing, and ends
		})
	}
}

// Await waits until it has the name, and reports whether it does: false when ctx ended before.
func (h *Holding) Await(ctx context.Context) bool {
	for pause := firstPause; ; pause = min(2*pause, askAgain) {
		began := time.Now()
		_ = h.watch(ctx) // who cannot be watched is asked again soon
		if ctx.Err() != nil {
			return false
		}
		if h.Try() == nil {
			return true
		}
		if time.Since(began) > askAgain {
			pause = firstPause // somebody ended, who had it for long, and may not have given up the name yet
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}

// watch returns when the holder has ended. The error says that it could not be watched.
func (h *Holding) watch(ctx context.Context) error {
	fd, err := h.network.Socket(unix.AF_UNIX, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: h.name}); err != nil {
		return errors.Join(err, unix.Close(fd)) // it has ended, has not come to listening, or too many wait for it
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
	_, _ = conn.Read(b[:]) // the holder says nothing, and ends
	return nil
}

// Close gives the name up.
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
