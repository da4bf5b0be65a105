// Package access moves bytes between packets and the memory that a queue pair's requests, and its peer, may use.
package access

import (
	"github.com/ndxdp/ndxdp/internal/memfault"
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

// Copy copies a list field by field. The entries were just written in parts, and a processor that reads several parts at once waits until
// they are in its cache. to must be long enough.
func Copy(to, from []SGE) {
	to = to[:len(from)]
	for i := range from {
		f := &from[i]
		to[i].Addr, to[i].Len, to[i].Token = f.Addr, f.Len, f.Token
	}
}

// Memory is what the requests of one queue pair, and its peer, may use. Without a user that is what all may use. It is made for a packet.
type Memory struct {
	Table  *memory.Table
	User   *memory.User
	Writes *Tally // of the engine; nil where no peer writes

	recent memory.Recent
}

// Done forgets the last lookup. It is called before anything that changes what tokens name.
func (a *Memory) Done() { a.recent.Forget() }

// Tally counts segments of WRITEs that an engine has placed into the memory of one grant and not counted there. A locked addition behind a copy
// waits until the copy has left the store buffer, so an engine adds once for many packets.
type Tally struct {
	grant *memory.Grant
	n     uint64
}

// Add counts a segment that was placed into the memory of a grant.
func (t *Tally) Add(g *memory.Grant) {
	if t.grant != g {
		t.Settle()
		t.grant = g
	}
	t.n++
}

// Settle adds to the grant's counter. The engine calls it before applications see what completed.
func (t *Tally) Settle() {
	if t.n > 0 {
		t.grant.CountWrites(t.n)
	}
	*t = Tally{}
}

// local resolves memory for a request of this side.
func (a *Memory) local(t memory.Token, addr, n uint64, need memory.Rights) ([]byte, *memory.Grant) {
	return a.recent.Local(a.Table, a.User, t, addr, n, need)
}

// MayUse says whether all entries of a list name memory of this side that grants need.
func (a *Memory) MayUse(sgl []SGE, need memory.Rights) bool {
	for i := range sgl {
		s := &sgl[i]
		if b, _ := a.local(s.Token, s.Addr, uint64(s.Len), need); b == nil && s.Len > 0 {
			return false
		}
	}
	return true
}

// Fault is what is wrong with a request that ended with o and may have named memory that it must not use.
func (a *Memory) Fault(sgl []SGE, o outcome.Outcome) outcome.Cause {
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
func (a *Memory) Gather(out *packet.Out, sgl []SGE, off, n uint32) bool {
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
		src, g := a.local(s.Token, s.Addr+uint64(off), uint64(take), 0)
		if src == nil {
			return false
		}
		switch id, ok := g.LinkID(s.Addr + uint64(off)); {
		case g.Foreign():
			if !Put(out, src, g) {
				return false
			}
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

// Put appends bytes of memory that a grant names to the operation just written. False means that the memory is not there any more.
func Put(out *packet.Out, src []byte, g *memory.Grant) bool {
	if g == nil || !g.Foreign() {
		out.Payload(src)
		return true
	}
	return memfault.Try(src, func() { out.Payload(src) })
}

// Place places bytes of a packet into memory that a grant names, with the last byte behind all others if it is the last of a message. False means that the memory is not there
// any more.
func Place(w *packet.Walk, dst []byte, g *memory.Grant, last bool) bool {
	if g.Foreign() {
		return memfault.Try(dst, func() { place(w, dst, last) })
	}
	place(w, dst, last)
	return true
}

func place(w *packet.Walk, dst []byte, last bool) {
	if last {
		w.PlaceLast(dst)
	} else {
		w.Place(dst)
	}
}

// Together returns what of n bytes of the entries of a list, from byte off, lies together. It is empty when the memory is not there any more, and of memory that the process may
// lose: Gather copies that.
func (a *Memory) Together(sgl []SGE, off, n uint32) []byte {
	for i := range sgl {
		s := &sgl[i]
		if off < s.Len {
			src, g := a.local(s.Token, s.Addr+uint64(off), uint64(min(n, s.Len-off)), 0)
			if src == nil || g.Foreign() {
				return nil
			}
			return src
		}
		off -= s.Len
	}
	return nil
}

// PutWrite writes a WRITE of n bytes of an entry, in one piece, into a packet. It returns false if there is no room, if the WRITE is long,
// or if the memory must not be used or may be lost by the process. The caller's other way of writing finds the reason.
func (a *Memory) PutWrite(out *packet.Out, s *SGE, n uint32, addr uint64, token memory.Token) bool {
	if s.Len != n {
		return false
	}
	src, g := a.local(s.Token, s.Addr, uint64(n), 0)
	return src != nil && !g.Foreign() && out.PutWrite(addr, uint32(token), src)
}

// Scatter places n bytes at byte off of a list of local entries; without a walk it only checks. False means that the memory may
// not be written.
func (a *Memory) Scatter(sgl []SGE, off, n uint32, last bool, w *packet.Walk) bool {
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
		dst, g := a.local(s.Token, s.Addr+uint64(off), uint64(take), memory.RightLocalWrite)
		if dst == nil || s.Addr+uint64(off) < s.Addr {
			return false
		}
		n -= take
		off = 0
		if w != nil && !Place(w, dst, g, n == 0 && last) {
			return false
		}
	}
	return n == 0
}

// Written returns n bytes that the peer may write, and what grants them; nil when it may not.
func (a *Memory) Written(t memory.Token, addr uint64, n uint32) ([]byte, *memory.Grant) {
	return a.recent.Remote(a.Table, a.User, t, addr, uint64(n), memory.RightRemoteWrite)
}

// Write places one piece of a WRITE. Length zero touches nothing, so its address and token are not checked. False means that the peer may not.
func (a *Memory) Write(op *wire.Op, w *packet.Walk) bool {
	if op.Length == 0 {
		return true
	}
	dst, grant := a.Written(memory.Token(op.Token), op.Address, uint32(op.Length))
	if dst == nil {
		return false
	}
	a.Writes.Add(grant)
	return Place(w, dst, grant, op.Flags&wire.OpLast != 0)
}

// Read returns n bytes that the peer may read, and what grants them; nil when it may not.
func (a *Memory) Read(t memory.Token, addr uint64, n uint32) ([]byte, *memory.Grant) {
	return a.recent.Remote(a.Table, a.User, t, addr, uint64(n), memory.RightRemoteRead)
}

// Readable says whether the peer may read n bytes. None touch nothing, and may always be read.
func (a *Memory) Readable(t memory.Token, addr uint64, n uint32) bool {
	if n == 0 {
		return true
	}
	src, _ := a.Read(t, addr, n)
	return src != nil
}
