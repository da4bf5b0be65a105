package host

import (
	"errors"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/provider"
)

// Entry names the bytes of buf in the region that t names. A slice outside its region becomes an entry that no region grants:
// it fails when the request is executed, as the specification wants, and not before. A fast-registered region is what it will be
// when the request's turn comes.
func (a *Adapter) Entry(buf []byte, t provider.Token) provider.SGE {
	s := provider.SGE{Len: uint32(len(buf))}
	if r := a.Memory.Lookup(t); r != nil {
		if off, ok := datapath.OffsetIn(r.Bytes(), buf); ok {
			s.Addr, s.Token = r.Base()+uint64(off), r.Token()
		}
	} else if area, base := a.Memory.Posted(t); area != nil {
		if off, ok := datapath.OffsetIn(area, buf); ok {
			s.Addr, s.Token = base+uint64(off), t
		}
	}
	return s
}

// Local checks an address to bind to, and says which endpoint it is: only the adapter's own will do.
func (a *Adapter) Local(addr netip.AddrPort) (provider.Endpoint, bool) {
	ip := addr.Addr().Unmap()
	if ip != a.Addr {
		return provider.Endpoint{}, false
	}
	return provider.EndpointFrom(netip.AddrPortFrom(ip, addr.Port())), true
}

// GiveBack gives memory of the device back with release, at once or, when packets that refer to it do not leave, as the adapter
// closes. Its owner has ended the requests that use it.
func (a *Adapter) GiveBack(release func() error) error {
	if a.settle() {
		return release()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = append(a.kept, release)
	return nil
}

// settleTries bounds the wait, in milliseconds, for packets that refer to allocated memory to be sent. What the kernel has
// not taken by then is on a device that does not send, because it is down; such memory is not used again before the adapter
// closes.
const settleTries = 100

// settle waits until no packet that waits to be sent refers to memory that nobody uses: a copy that was sent again may still
// wait.
func (a *Adapter) settle() bool {
	for range settleTries {
		settled := true
		for i, shard := range a.Shards {
			shard.Do(func(*provider.Engine) {
				// A closed adapter sends nothing, and its device may be gone.
				if !a.Closed() && !a.ports[i].Settled() {
					settled = false
				}
			})
		}
		if settled {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// releaseKept gives back what GiveBack kept: nothing is sent any more.
func (a *Adapter) releaseKept() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, release := range a.kept {
		errs = append(errs, release())
	}
	a.kept = nil
	return errors.Join(errs...)
}
