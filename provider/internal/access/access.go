// Package access moves bytes between packets and the memory that a queue pair's requests, and its peer, may use.
package access

import (
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/wire"
)

// SGE is a scatter/gather entry: Len bytes at Addr of the region that Token names.
type SGE struct {
	Addr  uint64
	Len   uint32
	Token memory.Token
}

// Copy copies a list, field by field: entries were written a moment ago, in parts, and a processor that reads several of those at once waits until
// they are in its cache. to must be long enough.
func Copy(to, from []SGE) {
	to = to[:len(from)]
	for i := range from {
		f := &from[i]
		to[i].Addr, to[i].Len, to[i].Token = f.Addr, f.Len, f.Token
	}
}

// Memory is what the requests of one queue pair, and its peer, may use. Without a user that is what all may use.
type Memory struct {
	Table *memory.Table
	User  *memory.User
}

// MayUse says whether all entries of a list name memory of this side that grants need.
func (a Memory) MayUse(sgl []SGE, need memory.Rights) bool {
	for _, s := range sgl {
		if b, _ := a.Table.Local(a.User, s.Token, s.Addr, uint64(s.Len), need); b == nil && s.Len > 0 {
			return false
		}
	}
	return true
}

// Fault is what is wrong with a request that ended with o, and may have named memory that it may not use.
func (a Memory) Fault(sgl []SGE, o outcome.Outcome) outcome.Cause {
	switch {
	case o != outcome.AccessViolation:
		return outcome.LocalRequest
	case a.MayUse(sgl, 0):
		return outcome.LocalRight
	default:
		return outcome.LocalMemory
	}
}

// Gather appends n bytes of the entries of a list to the operation just written, from byte off. False means that the memory is not there any more.
func (a Memory) Gather(out *packet.Out, sgl []SGE, off, n uint32) bool {
	for _, s := range sgl {
		if off >= s.Len {
			off -= s.Len
			continue
		}
		take := min(n, s.Len-off)
		if take == 0 {
			break
		}
		src, r := a.Table.Local(a.User, s.Token, s.Addr+uint64(off), uint64(take), 0)
		if src == nil {
			return false
		}
		switch id, ok := r.LinkID(s.Addr + uint64(off)); {
		case take == n && out.Lendable(n):
			out.Lend(src)
		case ok && take == n && out.Referable(n, id):
			out.Refer(src, id)
		default:
			out.Payload(src)
		}
		n -= take
		off = 0
	}
	return n == 0
}

// Scatter places n bytes at byte off of a list of local entries; without a walk it only checks. False means that the memory may
// not be written.
func (a Memory) Scatter(sgl []SGE, off, n uint32, last bool, w *packet.Walk) bool {
	for i := range sgl {
		s := &sgl[i]
		if off >= s.Len {
			off -= s.Len
			continue
		}
		take := min(n, s.Len-off)
		if take == 0 {
			break
		}
		dst, _ := a.Table.Local(a.User, s.Token, s.Addr+uint64(off), uint64(take), memory.RightLocalWrite)
		if dst == nil || s.Addr+uint64(off) < s.Addr {
			return false
		}
		n -= take
		off = 0
		switch {
		case w == nil:
		case n == 0 && last:
			w.PlaceLast(dst)
		default:
			w.Place(dst)
		}
	}
	return n == 0
}

// Written returns n bytes that the peer may write, and what grants them; nil when it may not.
func (a Memory) Written(t memory.Token, addr uint64, n uint32) ([]byte, *memory.Grant) {
	return a.Table.Remote(a.User, t, addr, uint64(n), memory.RightRemoteWrite)
}

// Write places one piece of a WRITE. Length zero touches nothing, so its address and token are not checked. False means that the peer may not.
func (a Memory) Write(op *wire.Op, w *packet.Walk) bool {
	if op.Length == 0 {
		return true
	}
	dst, grant := a.Written(memory.Token(op.Token), op.Address, uint32(op.Length))
	if dst == nil {
		return false
	}
	grant.CountWrite()
	if op.Flags&wire.OpLast != 0 {
		w.PlaceLast(dst)
	} else {
		w.Place(dst)
	}
	return true
}

// Read returns n bytes that the peer may read, and what grants them; nil when it may not.
func (a Memory) Read(t memory.Token, addr uint64, n uint32) ([]byte, *memory.Grant) {
	return a.Table.Remote(a.User, t, addr, uint64(n), memory.RightRemoteRead)
}

// Readable says whether the peer may read n bytes. None touch nothing, and may always be read.
func (a Memory) Readable(t memory.Token, addr uint64, n uint32) bool {
	if n == 0 {
		return true
	}
	src, _ := a.Read(t, addr, n)
	return src != nil
}
