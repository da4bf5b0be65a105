package verbs

import (
	"errors"
	"math"
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

// TransferLength checks the length of a request that has a list of so many entries with total bytes. The length it returns is that of
// a list of inline bytes, too, which may have any number of entries. Outcomes: OutcomeSuccess, OutcomeDataOverrun (entries),
// OutcomeBufferOverflow (bytes).
func TransferLength(total uint64, entries int) (uint32, provider.Outcome) {
	o := provider.OutcomeSuccess
	switch {
	case entries > provider.MaxSGE:
		o = provider.OutcomeDataOverrun
	case total > provider.MaxTransfer:
		o = provider.OutcomeBufferOverflow
	}
	return uint32(min(total, math.MaxUint32)), o
}

// Rights are what the flags of a registration grant: ND_MR_FLAG and NDK_MR_FLAG share their numbers.
func Rights(flags uint32) (r provider.Rights) {
	const localWrite, remoteRead, remoteWrite = 1, 2, 4 // the flag for remote write has the bit of local write, too
	if flags&localWrite != 0 {
		r |= provider.RightLocalWrite
	}
	if flags&remoteRead != 0 {
		r |= provider.RightRemoteRead
	}
	if flags&remoteWrite != 0 {
		r |= provider.RightRemoteWrite
	}
	return r
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
	if a.awaitTransmitDone() {
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
const transmitTries = 100

// awaitTransmitDone waits until no packet that waits to be sent refers to memory that nobody uses: a copy that was sent again may still
// wait.
func (a *Adapter) awaitTransmitDone() bool {
	for range transmitTries {
		done := true
		for i, shard := range a.Shards {
			shard.Do(func(*provider.Engine) {
				// A closed adapter sends nothing, and its device may be gone.
				if !a.Closed() && !a.ports[i].TransmitDone() {
					done = false
				}
			})
		}
		if done {
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
