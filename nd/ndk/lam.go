package ndk

import (
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// PageSize is the size in bytes of a page of a logical address mapping.
const PageSize = 4096

// LogicalAddress names a page of memory that is mapped for an adapter. It is a multiple of PageSize, and not an address of this
// process.
type LogicalAddress uint64

// LAM is a logical address mapping (NDK_LOGICAL_ADDRESS_MAPPING): the pages of one slice, in order. QP.FastRegister names its memory
// by pages, and requests with the privileged token by slices.
type LAM struct {
	Pages           []LogicalAddress // BuildLAM uses its capacity
	FirstByteOffset uint32           // offset of the memory in the first page; always 0, because pages are counted from its first byte

	region *provider.Region
}

// PagesOf returns how many pages n bytes occupy.
func PagesOf(n int) int { return (n + PageSize - 1) / PageSize }

// BuildLAM maps buf for requests of this adapter's queue pairs. buf must not move. Peers get no access by this. lam.Pages must have
// room for PagesOf(len(buf)) pages; needed is this number, also on failure. lam must not be used while the call is pending. It is
// valid until ReleaseLAM, and the adapter does not close before.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusBufferTooSmall; StatusInvalidParameter for an empty slice, a slice longer
// than MaxRegistrationSize and a lam that is in use; StatusAccessViolation for memory that is not mapped for reading and writing;
// StatusInsufficientResources if the adapter has no region left, StatusDeviceRemoved.
func (a *Adapter) BuildLAM(buf []byte, lam *LAM, done Completion, context any) (needed int, s Status) {
	needed = PagesOf(len(buf))
	switch {
	case len(buf) == 0 || len(buf) > verbs.MaxRegistration || lam == nil || lam.region != nil:
		return needed, a.unless(StatusInvalidParameter)
	case cap(lam.Pages) < needed:
		return needed, a.unless(StatusBufferTooSmall)
	}
	return needed, a.root.perform(done, context, func() Status {
		switch {
		case a.verbs.Closed():
			return StatusDeviceRemoved
		case lam.region != nil: // a concurrent BuildLAM used it
			return StatusInvalidParameter
		}
		foreign, err := a.verbs.Accessible(buf, provider.RightLocalWrite)
		if err != nil {
			return StatusAccessViolation
		}
		r, err := a.verbs.Memory.RegisterIn(nil, buf, provider.RightLocalWrite, foreign)
		if err != nil {
			return StatusInsufficientResources
		}
		lam.region, lam.FirstByteOffset, lam.Pages = r, 0, lam.Pages[:needed]
		for i := range lam.Pages {
			lam.Pages[i] = LogicalAddress(r.Base() + uint64(i)*PageSize)
		}
		a.root.hold()
		a.verbs.Mappings.Add(r)
		return StatusSuccess
	})
}

// ReleaseLAM ends a mapping that BuildLAM made. When it returns, nothing touches the memory any more: its fast registrations have
// ended, and requests that still name it fail. It does nothing for a LAM that is nil, not mapped, or mapped by another adapter.
func (a *Adapter) ReleaseLAM(lam *LAM) {
	if lam == nil || lam.region == nil || !a.verbs.Mappings.Remove(lam.region) {
		return
	}
	r := lam.region
	a.verbs.DoAll(func() { a.verbs.Memory.Release(r) })
	lam.region, lam.Pages = nil, lam.Pages[:0]
	a.root.drop()
}

// mapped returns the mapping that has the pages in the same order, or nil.
func (a *Adapter) mapped(pages []LogicalAddress) *provider.Region {
	for i, p := range pages {
		if p%PageSize != 0 || p != pages[0]+LogicalAddress(i)*PageSize {
			return nil
		}
	}
	return a.verbs.Mappings.At(uint64(pages[0]))
}

// PrivilegedToken returns the token for entries that name memory of mappings without a registration. Requests with it may read and
// write slices of every LAM of the adapter. It gives peers no access. It is the same in all domains.
func (p *PD) PrivilegedToken() Token { return Token(p.adapter.verbs.Mappings.Token()) }
