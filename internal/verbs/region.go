package verbs

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/hugepage"
	"github.com/ndxdp/ndxdp/provider"
)

// MR is memory that requests may use and that peers may be granted access to. It has at most one registration at a time. All methods may be
// called from any goroutine.
type MR struct {
	adapter *Adapter
	domain  *provider.Domain                // objects of one domain may be used together; nil for no domain
	region  atomic.Pointer[provider.Region] // the newest registration; nil before the first

	Changing   sync.Mutex   // one change at a time
	registered atomic.Bool  // written with Changing held
	closed     bool         // guarded by Changing
	release    func() error // returns allocated memory; nil for an application's memory; guarded by Changing
	err        error        // result of the first Close; guarded by Changing
}

// Init makes m a region of an adapter, without memory.
func (m *MR) Init(a *Adapter, domain *provider.Domain) { m.adapter, m.domain = a, domain }

// none stands for the registration of a region without one.
var none provider.Region

// Newest returns the newest registration, even if it has ended. Before the first registration it is an empty one.
func (m *MR) Newest() *provider.Region {
	if r := m.region.Load(); r != nil {
		return r
	}
	return &none
}

// Registered reports whether the newest registration is still in force.
func (m *MR) Registered() bool { return m.registered.Load() }

// The rights of a registration: ND_MR_FLAG and NDK_MR_FLAG share their numbers. The flag for remote write includes the bit of local write.
// Read sinks need no right, and nothing secures memory.
const (
	localWrite, remoteRead, remoteWrite = 1, 2, 4
	knownFlags                          = localWrite | remoteRead | remoteWrite | 8 | 0x80000000
)

// rights are the rights that the flags of a registration grant.
func rights(flags uint32) (r provider.Rights) {
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

// CheckRegister checks the arguments of a registration of n bytes. missing says that the slice is nil.
//
// Outcomes: OutcomeSuccess, OutcomeWrongFlags, OutcomeWrongArgument (missing or too long), OutcomeEmpty, OutcomeDeviceRemoved.
func (a *Adapter) CheckRegister(missing bool, n int, flags uint32) provider.Outcome {
	switch {
	case a.Closed():
		return provider.OutcomeDeviceRemoved
	case flags&^knownFlags != 0:
		return OutcomeWrongFlags
	case missing || n < 0 || n > MaxRegistration:
		return OutcomeWrongArgument
	case n == 0:
		return OutcomeEmpty
	}
	return provider.OutcomeSuccess
}

// Register makes buf usable for requests. cause says what is wrong with the memory.
//
// Outcomes: those of CheckRegister, OutcomeInvalidState (registered or closed), OutcomeAccessViolation (the mapping lacks a right, or
// reaches beyond the end of its file), OutcomeInsufficientResources.
func (m *MR) Register(buf []byte, flags uint32) (o provider.Outcome, cause error) {
	return m.register(buf, flags, func(r provider.Rights, foreign bool) (*provider.Region, error) {
		return m.adapter.Memory.RegisterIn(m.domain, buf, r, foreign)
	})
}

// RegisterAt is Register with a base address that the application chooses. It returns OutcomeWrongArgument, too, if an address would wrap.
func (m *MR) RegisterAt(buf []byte, flags uint32, base uint64) (o provider.Outcome, cause error) {
	if base+uint64(len(buf)) < base {
		return OutcomeWrongArgument, nil
	}
	return m.register(buf, flags, func(r provider.Rights, foreign bool) (*provider.Region, error) {
		return m.adapter.Memory.RegisterAt(m.domain, buf, r, foreign, base)
	})
}

// register checks the arguments and the memory of a registration that add then adds to the table.
func (m *MR) register(
	buf []byte, flags uint32, add func(r provider.Rights, foreign bool) (*provider.Region, error),
) (o provider.Outcome, cause error) {
	if o := m.adapter.CheckRegister(buf == nil, len(buf), flags); o != provider.OutcomeSuccess {
		return o, nil
	}
	r := rights(flags)
	o = m.change(nil, func() (*provider.Region, error) {
		var foreign bool
		if foreign, cause = m.adapter.Accessible(buf, r); cause != nil {
			return nil, cause
		}
		return add(r, foreign)
	})
	if cause != nil {
		o = provider.OutcomeAccessViolation
	}
	return o, cause
}

// Allocate makes a region of n new zeroed bytes: memory of the device while it has some, and otherwise ordinary memory. cause says why
// memory of the device was not returned after a failure.
//
// Outcomes: those of CheckRegister, OutcomeNoMemory, OutcomeInvalidState, OutcomeInsufficientResources.
func (m *MR) Allocate(n int, flags uint32) (o provider.Outcome, cause error) {
	a := m.adapter
	if o := a.CheckRegister(false, n, flags); o != provider.OutcomeSuccess {
		return o, nil
	}
	if a.Device != nil {
		if buf, id, ok := a.Device.Alloc(n); ok {
			free := func() error { return a.Device.Release(id) }
			o = m.change(free, func() (*provider.Region, error) { return a.Memory.RegisterLink(buf, id, rights(flags)) })
			if o != provider.OutcomeSuccess {
				cause = free()
			}
			return o, cause
		}
		if !host.FitsMemory(n) {
			return OutcomeNoMemory, nil
		}
	}
	buf, free, err := pages(n)
	if err != nil {
		return OutcomeNoMemory, err
	}
	o = m.change(free, func() (*provider.Region, error) { return a.Memory.RegisterIn(m.domain, buf, rights(flags), false) })
	if o != provider.OutcomeSuccess && free != nil {
		cause = free()
	}
	return o, cause
}

// change gives the region the result of register, and release to return the memory. If the region has a registration, it is refused before
// register is called.
func (m *MR) change(release func() error, register func() (*provider.Region, error)) provider.Outcome {
	m.Changing.Lock()
	defer m.Changing.Unlock()
	switch {
	case m.adapter.Closed():
		return provider.OutcomeDeviceRemoved
	case m.registered.Load() || m.closed:
		return provider.OutcomeInvalidState
	}
	r, err := register()
	if err != nil {
		return provider.OutcomeInsufficientResources
	}
	m.region.Store(r)
	m.registered.Store(true)
	m.release = release
	return provider.OutcomeSuccess
}

// Deregister ends the registration: when it returns, nothing touches the memory any more. It works on a closed adapter, too. err says why
// the device did not take its memory back.
//
// Outcomes: OutcomeSuccess, OutcomeInvalidState (not registered), OutcomeDeviceBusy (a window is bound).
func (m *MR) Deregister() (o provider.Outcome, err error) {
	m.Changing.Lock()
	defer m.Changing.Unlock()
	if !m.registered.Load() {
		return provider.OutcomeInvalidState, nil
	}
	m.adapter.DoAll(func() { o = m.adapter.Memory.Deregister(m.region.Load()) })
	if o == provider.OutcomeSuccess {
		err = m.deregistered()
	}
	return o, err
}

// deregistered returns the memory if it belongs to the adapter. The caller holds Changing.
func (m *MR) deregistered() (err error) {
	m.registered.Store(false)
	if m.release != nil {
		err = m.adapter.giveBack(m.release)
	}
	m.release = nil
	return err
}

// Windows returns how many windows are bound to the registration.
func (m *MR) Windows() int { return m.adapter.Memory.Windows(m.Newest()) }

// WhenUnbound reports whether windows are bound to the registration. If so, it calls fin once none is.
func (m *MR) WhenUnbound(fin provider.Finish) (waits bool) {
	return m.Registered() && m.adapter.Memory.WhenUnbound(m.Newest(), fin)
}

// Close deregisters the region for good, even if windows are bound to it. It reports whether this call was the first. err is the error of
// the first call.
func (m *MR) Close() (first bool, err error) {
	m.Changing.Lock()
	defer m.Changing.Unlock()
	if m.registered.Load() {
		m.adapter.DoAll(func() { m.adapter.Memory.Release(m.region.Load()) })
		m.err = m.deregistered()
	}
	first, m.closed = !m.closed, true
	return first, m.err
}

// entry names the bytes of buf in the region of t. A slice outside its region becomes an entry that no region grants. The request then
// fails when it is executed, as the specification demands, and not before. A fast-registered region counts as it will be when the request
// is executed.
func (a *Adapter) entry(buf []byte, t provider.Token) provider.SGE {
	s := provider.SGE{Len: uint32(len(buf))}
	if r := a.Memory.Lookup(t); r != nil {
		if off, ok := datapath.OffsetIn(r.Bytes(), buf); ok {
			s.Addr, s.Token = r.Base()+uint64(off), r.Token()
		}
	} else if area, base := a.Memory.Posted(t); area != nil {
		if off, ok := datapath.OffsetIn(area, buf); ok {
			s.Addr, s.Token = base+uint64(off), t
		}
	} else if r := a.Mappings.holding(t, buf); r != nil {
		off, _ := datapath.OffsetIn(r.Bytes(), buf)
		s.Addr, s.Token = r.Base()+uint64(off), r.Token()
	}
	return s
}

// transferLength is the length of a request with a list of entries and total bytes. A length that no request may have stays too long,
// because entries are checked first (ND specification 11.1). A list of inline bytes may have any number of entries; any other list fails
// with OutcomeDataOverrun beyond the limit of all queues.
func transferLength(total uint64, entries int) (uint32, provider.Outcome) {
	o := provider.OutcomeSuccess
	if entries > provider.MaxSGE {
		o = provider.OutcomeDataOverrun
	}
	return uint32(min(total, math.MaxUint32)), o
}

// pages makes n zeroed bytes of ordinary memory, page-aligned. free returns the memory to the kernel; nil leaves it to the garbage
// collector. Memory of the size of a huge page and more is mapped, because Go's runtime does not ask for huge pages.
func pages(n int) (mem []byte, free func() error, err error) {
	const page = 4096
	if n < hugepage.Size {
		return make([]byte, n, (n+page-1)&^(page-1)), nil, nil
	}
	return hugepage.Map(n)
}
