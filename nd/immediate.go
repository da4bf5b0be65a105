package nd

import (
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// This file has what other RDMA interfaces have and ND lacks: 32 bits beside a message or a Write, and addresses of the application's choice.

// SendImmediate is Send of a message with 32 bits of immediate data, which the result of the peer's Receive has. Errors are as for Send, with
// flags as argument 5.
func (q *QueuePair) SendImmediate(id uint64, sgl []SGE, immediate uint32, flags OpFlags) error {
	if flags&^(OpSilentSuccess|OpReadFence|OpSolicit|OpInline|OpDefer|OpAnswered) != 0 {
		return q.wrong("send immediate", 5)
	}
	return q.posted("send immediate", verbs.Post(&q.qp, &provider.Request{
		Kind: provider.KindSend, Context: id, Flags: provider.PostFlags(flags) | provider.FlagImmediate, Immediate: immediate,
	}, sgl))
}

// WriteImmediate is a Write that also completes a Receive of the peer, after its bytes are placed. The result of this Receive is solicited,
// has the immediate data and 0 bytes. The call posts a Write and an empty Send: they take two entries of the initiator queue, both or none,
// and have one result. Errors are as for Send, with flags as argument 7.
func (q *QueuePair) WriteImmediate(id uint64, sgl []SGE, addr uint64, token Token, immediate uint32, flags OpFlags) error {
	if flags&^(OpSilentSuccess|OpReadFence|OpInline|OpDefer) != 0 {
		return q.wrong("write immediate", 7)
	}
	return q.posted("write immediate", verbs.Post(&q.qp, &provider.Request{
		Kind: provider.KindWrite, Context: id, Flags: provider.PostFlags(flags) | provider.FlagImmediate, Immediate: immediate,
		Addr: addr, Token: provider.Token(token),
	}, sgl))
}

// RegisterAt is Register with an address for the first byte that the application chooses, for example 0, so that peers use offsets. The
// address plus len(buf) must not wrap. Only the token then keeps a peer from memory that was not granted to it, and a token has 16 random
// bits: one guess costs a peer its connection. Errors are as for Register. An address that wraps is ErrInvalidParameter.
func (m *MemoryRegion) RegisterAt(buf []byte, flags MRFlags, address uint64) error {
	o, cause := m.mr.RegisterAt(buf, uint32(flags), address)
	return m.adapter.fail("register memory", noAddr, noAddr, o, cause)
}
