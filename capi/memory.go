//go:build cgo

package main

// #include "ndxdp.h"
import "C"

import (
	"unsafe"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// region is registered memory.
type region struct {
	verbs.MR
	adapter *adapter
}

// bytesAt returns n bytes of the program at an address. It fails if they reach beyond the address space.
func bytesAt(address unsafe.Pointer, n uint64) (buf []byte, ok bool) {
	if n == 0 {
		return nil, true
	}
	if address == nil || n > 1<<47 || uint64(uintptr(address)) > 1<<63 {
		return nil, false
	}
	return unsafe.Slice((*byte)(address), int(n)), true
}

//export ndxgo_memory_register
func ndxgo_memory_register(
	h C.uint64_t, address unsafe.Pointer, n C.uint64_t, flags C.uint32_t, info *C.struct_ndx_memory_info, cause *C.char, out *C.uint64_t,
) status {
	buf, ok := bytesAt(address, uint64(n))
	if !ok {
		return invalidParameter
	}
	return newRegion(h, info, cause, out, func(m *region) (provider.Outcome, error) {
		if flags&C.NDX_BASE != 0 {
			return m.RegisterAt(buf, uint32(flags&^C.NDX_BASE), uint64(info.base))
		}
		return m.Register(buf, uint32(flags))
	})
}

//export ndxgo_memory_allocate
func ndxgo_memory_allocate(
	h, n C.uint64_t, flags C.uint32_t, info *C.struct_ndx_memory_info, cause *C.char, out *C.uint64_t,
) status {
	if n > verbs.MaxRegistration {
		return invalidParameter
	}
	return newRegion(h, info, cause, out, func(m *region) (provider.Outcome, error) { return m.Allocate(int(n), uint32(flags)) })
}

// newRegion makes a region with the memory that fill gives it.
func newRegion(
	h C.uint64_t, info *C.struct_ndx_memory_info, cause *C.char, out *C.uint64_t, fill func(*region) (provider.Outcome, error),
) status {
	a, ok := adapters.get(h)
	if !ok {
		return invalidHandle
	}
	if o := a.Create(verbs.ObjectMR); o != provider.OutcomeSuccess {
		return statuses[o]
	}
	m := &region{adapter: a}
	m.Init(a.Adapter, nil)
	o, err := fill(m)
	handle := uint64(0)
	if o == provider.OutcomeSuccess {
		if handle = memories.put(m); handle == 0 {
			o = provider.OutcomeInsufficientResources
		}
	}
	if o != provider.OutcomeSuccess {
		explain(cause, err)
		_ = m.close()
		return statuses[o]
	}
	r := m.Newest()
	*info = C.struct_ndx_memory_info{
		base: C.uint64_t(r.Base()), token: C.uint32_t(r.Token()),
		address: unsafe.Pointer(unsafe.SliceData(r.Bytes())), length: C.uint64_t(len(r.Bytes())),
	}
	*out = C.uint64_t(handle)
	return success
}

func (m *region) close() error {
	first, err := m.Close()
	if first {
		m.adapter.Objects.Give(verbs.ObjectMR)
	}
	return err
}

//export ndxgo_memory_close
func ndxgo_memory_close(h C.uint64_t, cause *C.char) status {
	m, ok := memories.take(h)
	if !ok {
		return invalidHandle
	}
	if err := m.close(); err != nil {
		explain(cause, err)
		return C.NDX_ERR_UNSUCCESSFUL
	}
	return success
}
