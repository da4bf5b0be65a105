// Package access copies bytes between packets and application memory, after it has checked tokens, rights and bounds.
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

// Copy copies a list field by field. The entries were just written field by field. A wider load would have to wait until these
// stores have left the store buffer. to must be at least as long as from.
func Copy(to, from []SGE) {
	to = to[:len(from)]
	for i := range from {
		f := &from[i]
		to[i].Addr, to[i].Len, to[i].Token = f.Addr, f.Len, f.Token
	}
}

// Memory is the memory that the requests of one queue pair may access. Without a user, it is the memory of regions without a
// protection domain. The engine makes a Memory for each packet.
type Memory struct {
	Table  *memory.Table
	User   *memory.User
	Writes *Tally // of the engine; nil if the peer cannot write

	recent memory.Recent
}

// Done drops the cached lookup. The caller calls it before any change to what tokens name.
func (a *Memory) Done() { a.recent.Forget() }

// Tally counts the WRITE segments that an engine has placed into one grant's memory but not yet added to the grant's counter. An
// engine adds once for many packets, because an atomic addition right after a copy waits until the store buffer is empty.
type Tally struct {
	grant *memory.Grant
	n     uint64
}

// Add counts one segment placed into the memory of g.
func (t *Tally) Add(g *memory.Grant) {
	if t.grant != g {
		t.Settle()
		t.grant = g
	}
	t.n++
}

// Settle adds the count to the grant's counter. The engine calls it before applications see completions.
func (t *Tally) Settle() {
	if t.n > 0 {
		t.grant.CountWrites(t.n)
	}
	*t = Tally{}
}

// local resolves memory for a request of this queue pair.
func (a *Memory) local(t memory.Token, addr, n uint64, need memory.Rights) ([]byte, *memory.Grant) {
	return a.recent.Local(a.Table, a.User, t, addr, n, need)
}

// MayUse reports whether all entries of a list name local memory with the rights in need.
func (a *Memory) MayUse(sgl []SGE, need memory.Rights) bool {
	for i := range sgl {
		s := &sgl[i]
		if b, _ := a.local(s.Token, s.Addr, uint64(s.Len), need); b == nil && s.Len > 0 {
			return false
		}
	}
	return true
}

// Fault returns the cause of outcome o of a request that used sgl. It tells a bad token or bound from a missing right.
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

// Gather appends n bytes of a list, from byte off, to the operation just written. It returns false if the memory is not registered
// any more.
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

// Put appends memory of a grant to the operation just written. It returns false if the process has lost the memory.
func Put(out *packet.Out, src []byte, g *memory.Grant) bool {
	if g == nil || !g.Foreign() {
		out.Payload(src)
		return true
	}
	return memfault.Try(src, func() { out.Payload(src) })
}

// Place copies payload of a packet into memory of a grant. If the payload is the last of a message, its last byte is written after
// all others. It returns false if the process has lost the memory.
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

// Together returns the longest contiguous part of n bytes of a list, from byte off. It returns nil if the memory is not registered
// any more. It also returns nil for memory that the process may lose, because Gather copies this memory.
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

// PutWrite writes a WRITE of n bytes, which one entry holds, into a packet. It returns false if the packet has no room, if the
// WRITE is long, or if the memory is not allowed or may be lost by the process. The caller then uses Gather, which finds the
// reason.
func (a *Memory) PutWrite(out *packet.Out, s *SGE, n uint32, addr uint64, token memory.Token) bool {
	if s.Len != n {
		return false
	}
	src, g := a.local(s.Token, s.Addr, uint64(n), 0)
	return src != nil && !g.Foreign() && out.PutWrite(addr, uint32(token), src)
}

// Scatter copies payload to the n bytes of a list from byte off. Without a walk, it only checks that the bytes may be written. It
// returns false if they may not.
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

// Written returns n bytes that the peer may write, and their grant. It returns nil if the peer may not write them.
func (a *Memory) Written(t memory.Token, addr uint64, n uint32) ([]byte, *memory.Grant) {
	return a.recent.Remote(a.Table, a.User, t, addr, uint64(n), memory.RightRemoteWrite)
}

// Write places one segment of a WRITE. An empty segment touches nothing, so its address and token are not checked. Write returns
// false if the peer may not write there.
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

// Read returns n bytes that the peer may read, and their grant. It returns nil if the peer may not read them.
func (a *Memory) Read(t memory.Token, addr uint64, n uint32) ([]byte, *memory.Grant) {
	return a.recent.Remote(a.Table, a.User, t, addr, uint64(n), memory.RightRemoteRead)
}

// Readable reports whether the peer may read n bytes. A READ of no bytes is always allowed, because it touches nothing.
func (a *Memory) Readable(t memory.Token, addr uint64, n uint32) bool {
	if n == 0 {
		return true
	}
	src, _ := a.Read(t, addr, n)
	return src != nil
}
