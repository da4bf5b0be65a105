package ndk

import (
	"math"

	"github.com/ndxdp/ndxdp/provider"
)

// maxFastPages is how many pages a fast-registered region may have: 16 MiB.
const maxFastPages = 1 << 12

// fastMR is what a region for fast registration is instead of a registered one.
type fastMR struct {
	region *provider.MemoryWindow
	pages  uint32 // its limit; zero before it is initialised
	remote bool   // peers may be granted access
}

// InitializeFastRegister readies a region that CreateMR made for fast registration, once: QP.FastRegister may give it up to that
// many pages, and grant peers access only if remote says so. LocalToken is there afterwards.
//
// Statuses: StatusSuccess; StatusPending with a done; StatusImplementationLimit for 0 pages and more than FRMRPageCount,
// StatusInvalidDeviceRequest for a region that is for Register or initialised, StatusDeviceRemoved.
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

// FastRegister posts a registration: when its turn comes, region gets length bytes from firstByteOffset of the first of pages on.
// They are pages of one LAM in its order, fewer or all. Requests to this queue pair that follow and its peer name the first byte
// by base, with region.LocalToken() and region.RemoteToken(), which are new ones and there when FastRegister returns. It ends with
// Invalidate, with SendAndInvalidate of the peer, with the queue pair and with the LAM; until then the region may not be registered
// again, which would end the request with StatusInvalidDeviceRequest, and the connection. Flags: OpAllowLocalWrite,
// OpAllowRemoteRead, OpAllowRemoteWrite, silent success, read fence, defer, and the read sink, which is not needed.
//
// Statuses: StatusSuccess; StatusConnectionInvalid, StatusNoMoreEntries, StatusAccessViolation (remote access that was not initialised
// for), StatusInvalidParameter (flags, a region of another domain, closed or not initialised, pages that are not mapped or more than it was
// initialised for, an empty range or one outside of them, a base that is not firstByteOffset into a page), StatusDeviceRemoved.
func (q *QP) FastRegister(context uint64, region *MR, pages []LogicalAddress, firstByteOffset uint32, length, base uint64, flags OpFlags) Status {
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
		Window: f.region, Region: from, Addr: first, Length: length, Context: context, Flags: engine,
	}, base))
}

// Invalidatable is what Invalidate ends the use of: a memory window, or a region for fast registration.
type Invalidatable interface {
	// invalidates returns nil unless it is of the domain, open, and may be invalidated.
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
