package ndk

import (
	"math"

	"github.com/ndxdp/ndxdp/provider"
)

// maxFastPages is how many pages a fast-registered region may have: 16 MiB.
const maxFastPages = 1 << 12

// fastMR is the state of a region for fast registration, in place of a registered region.
type fastMR struct {
	region *provider.MemoryWindow
	pages  uint32 // maximum; zero before it is initialized
	remote bool   // peers may be granted access
}

// InitializeFastRegister prepares, once, a region that CreateMR made for fast registration. QP.FastRegister may then register up to pages
// pages, and grant peers access only if remote is true. LocalToken is valid afterwards.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusImplementationLimit for 0 pages and more than FRMRPageCount,
// StatusInvalidDeviceRequest for a region that is for Register or initialized already, StatusDeviceRemoved.
func (m *MR) InitializeFastRegister(pages uint32, remote bool, done Completion, context any) Status {
	switch {
	case m.fastRegion == nil:
		return m.adapter.unless(StatusInvalidDeviceRequest)
	case pages == 0 || pages > maxFastPages:
		return m.adapter.unless(StatusImplementationLimit)
	}
	return m.perform(done, context, func() Status {
		ready := &fastMR{region: m.fastRegion, pages: pages, remote: remote}
		switch {
		case m.adapter.verbs.Closed():
			return StatusDeviceRemoved
		case !m.fast.CompareAndSwap(nil, ready):
			return StatusInvalidDeviceRequest
		}
		return StatusSuccess
	})
}

// FastRegister posts a registration. When it is carried out, region has length bytes, beginning at firstByteOffset of the first page. pages
// are some or all pages of one LAM, in its order. Later requests of this queue pair, and its peer, name the first byte by base, with
// region.LocalToken() and region.RemoteToken(). Both tokens are new, and valid when FastRegister returns.
//
// The registration ends with Invalidate, with SendAndInvalidate of the peer, with the queue pair and with the LAM. If the region is
// registered again before, the request ends with StatusInvalidDeviceRequest, and so does the connection. Flags: OpAllowLocalWrite,
// OpAllowRemoteRead, OpAllowRemoteWrite, silent success, read fence, defer, and the read sink, which has no effect.
//
// Statuses: StatusSuccess; StatusConnectionInvalid, StatusNoMoreEntries, StatusAccessViolation (remote access that the region was not
// initialized for), StatusDeviceRemoved. StatusInvalidParameter: the flags are wrong; the region is closed, not initialized or of another
// domain; there are too many pages, or a page is not mapped; the range is empty or exceeds the pages; or base modulo PageSize is not
// firstByteOffset.
func (q *QP) FastRegister(id uint64, region *MR, pages []LogicalAddress, firstByteOffset uint32, length, base uint64, flags OpFlags) Status {
	const remote = OpAllowRemoteRead | OpAllowRemoteWrite&^OpAllowLocalWrite
	const known = OpSilentSuccess | OpReadFence | OpAllowRemoteRead | OpAllowRemoteWrite | OpRDMAReadSink | OpDefer
	if flags&^known != 0 || region == nil || region.pd != q.pd || region.ending() {
		return q.wrong()
	}
	f := region.fast.Load()
	switch {
	case f == nil, len(pages) == 0, uint64(len(pages)) > uint64(f.pages), firstByteOffset >= PageSize, length == 0,
		length > uint64(len(pages))*PageSize-uint64(firstByteOffset),
		base%PageSize != uint64(firstByteOffset), base > math.MaxUint64-length:
		return q.wrong()
	case flags&remote != 0 && !f.remote:
		return q.posted(q.qp.Fail(provider.OutcomeAccessViolation))
	}
	from := q.adapter.mapped(pages)
	first := uint64(pages[0]) + uint64(firstByteOffset)
	if from == nil || first+length > from.Base()+uint64(len(from.Bytes())) {
		return q.wrong()
	}
	engine := flags.engine()
	if flags&OpAllowLocalWrite != 0 {
		engine |= provider.FlagLocalWrite
	}
	return q.posted(q.qp.FastRegister(&provider.BindRequest{
		Window: f.region, Region: from, Addr: first, Length: length, Context: id, Flags: engine,
	}, base))
}

// Invalidatable is an object that Invalidate accepts: a memory window, or a region for fast registration.
type Invalidatable interface {
	// invalidates returns nil unless the object is of the domain, open, and may be invalidated.
	invalidates(pd *PD) *provider.MemoryWindow
}

func (w *MW) invalidates(pd *PD) *provider.MemoryWindow {
	if w == nil || w.pd != pd || w.ending() {
		return nil
	}
	return w.window
}

func (m *MR) invalidates(pd *PD) *provider.MemoryWindow {
	if m == nil || m.pd != pd || m.ending() {
		return nil
	}
	return m.fastRegion
}
