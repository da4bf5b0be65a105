package access

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/link/linktest"
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/wire"
)

// region is memory with random bytes, and an entry that covers all of it.
func region(t *testing.T, table *memory.Table, size int, rights memory.Rights) (b []byte, all SGE) {
	t.Helper()
	b = make([]byte, size)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)
	}
	r, err := table.Register(b, rights)
	if err != nil {
		t.Fatal(err)
	}
	return b, SGE{Addr: r.Base(), Len: uint32(size), Token: r.Token()}
}

// send gathers an entry list into one packet of at most limit bytes, and returns the parts of the packet.
func send(t *testing.T, m Memory, limit int, lends bool, sgl []SGE, off, n uint32) []link.Frag {
	t.Helper()
	l := &linktest.Frames{}
	o := packet.NewOut(l)
	if !o.Begin(limit) {
		t.Fatal("no frames")
	}
	if lends {
		o.Leaves(false, true, false)
	}
	op := wire.Op{Opcode: wire.OpWrite, Length: uint16(n), Total: n, Flags: wire.OpLast}
	o.Put(&op)
	if !m.Gather(&o, sgl, off, n) {
		t.Fatal("the memory is not there")
	}
	o.Seal(1, wire.NotECT, &wire.BaseFields{Operations: true})
	o.Add()
	o.Flush()
	p := &l.Sent[0]
	return p.Frags[:p.N]
}

// Payload that fills a packet stays in application memory if the link allows that. Payload that is short, in several ranges or not
// allowed there is copied.
func TestGatherLends(t *testing.T) {
	table := memory.NewTable(rand.New(rand.NewPCG(1, 2)))
	b, all := region(t, table, 16<<10, 0)
	m := Memory{Table: table}
	apart := []SGE{{Addr: all.Addr, Len: 700, Token: all.Token}, {Addr: all.Addr + 700, Len: 8000, Token: all.Token}}
	for _, c := range []struct {
		name  string
		limit int
		lends bool
		sgl   []SGE
		off   uint32
		n     uint32
		lent  bool
	}{
		{"a full packet", 1472, true, []SGE{all}, 64, 1408, true},
		{"one over frames", 8972, true, []SGE{all}, 0, 8896, true},
		{"where memory is not lent", 1472, false, []SGE{all}, 64, 1408, false},
		{"half a packet", 8972, true, []SGE{all}, 64, 4096, false},
		{"a short one", 1200, true, []SGE{all}, 64, 900, false},
		{"two places", 1472, true, apart, 0, 1408, false},
		{"the second of two places", 1472, true, apart, 700, 1408, true},
	} {
		pieces := send(t, m, c.limit, c.lends, c.sgl, c.off, c.n)
		last := pieces[len(pieces)-1]
		if lent := last.ID == link.Lent; lent != c.lent || lent && &last.Data[0] != &b[c.off] {
			t.Errorf("%s: lent %v, want %v", c.name, lent, c.lent)
		}
		var got []byte
		for _, p := range pieces {
			got = append(got, p.Data...)
		}
		if got = got[len(got)-int(c.n):]; !bytes.Equal(got, b[c.off:][:c.n]) {
			t.Errorf("%s: other bytes", c.name)
		}
	}
}

// An entry list is valid as far as each of its entries is. Each fault has its own outcome.
func TestWhatMayBeUsed(t *testing.T) {
	table := memory.NewTable(rand.New(rand.NewPCG(1, 2)))
	_, mine := region(t, table, 4096, memory.RightLocalWrite)
	_, fixed := region(t, table, 4096, 0)
	m, nobody := Memory{Table: table}, SGE{Addr: mine.Addr, Len: 1, Token: mine.Token ^ 1}
	for _, c := range []struct {
		name        string
		sgl         []SGE
		read, write bool
		cause       outcome.Cause
	}{
		{"with every right", []SGE{mine}, true, true, outcome.LocalRight},
		{"without local write", []SGE{mine, fixed}, true, false, outcome.LocalRight},
		{"unknown", []SGE{mine, nobody}, false, false, outcome.LocalMemory},
		{"beyond its end", []SGE{{Addr: mine.Addr + 1, Len: 4096, Token: mine.Token}}, false, false, outcome.LocalMemory},
		{"empty", []SGE{{Token: mine.Token ^ 1}}, true, true, outcome.LocalRight},
	} {
		if r, w := m.MayUse(c.sgl, 0), m.MayUse(c.sgl, memory.RightLocalWrite); r != c.read || w != c.write {
			t.Errorf("%s: read %v, write %v", c.name, r, w)
		}
		if got := m.Fault(c.sgl, outcome.AccessViolation); got != c.cause {
			t.Errorf("%s: cause %v, want %v", c.name, got, c.cause)
		}
	}
	if !m.Scatter([]SGE{mine, fixed}, 0, 4096, true, nil) || m.Scatter([]SGE{mine, fixed}, 1, 4096, true, nil) {
		t.Error("bytes go where they may not, or not where they may")
	}
}

// A peer needs the right of its operation for READs and WRITEs. An operation without bytes needs no right.
func TestWhatAPeerMayUse(t *testing.T) {
	table := memory.NewTable(rand.New(rand.NewPCG(1, 2)))
	_, readable := region(t, table, 4096, memory.RightRemoteRead)
	b, writable := region(t, table, 4096, memory.RightRemoteWrite)
	m := Memory{Table: table}
	if !m.Readable(readable.Token, readable.Addr, 4096) || m.Readable(readable.Token, readable.Addr, 4097) || m.Readable(writable.Token, writable.Addr, 1) || !m.Readable(0, 0, 0) {
		t.Error("other memory may be read than has the right")
	}
	if dst, _ := m.Written(writable.Token, writable.Addr+96, 4000); dst == nil || &dst[0] != &b[96] {
		t.Error("a peer cannot write where it may")
	}
	if dst, _ := m.Written(readable.Token, readable.Addr, 1); dst != nil {
		t.Error("a peer writes where it may only read")
	}
	if !m.Write(&wire.Op{}, nil) || m.Write(&wire.Op{Length: 1, Token: uint32(readable.Token), Address: readable.Addr}, nil) {
		t.Error("an empty write needs a right, or another one none")
	}
}

// Each segment counts as an access to the region that it was written to, whatever was accessed in between.
func TestWritesAreCountedByGrant(t *testing.T) {
	table := memory.NewTable(rand.New(rand.NewPCG(1, 2)))
	var writes Tally
	m := Memory{Table: table, Writes: &writes}
	var sgl [2]SGE
	for i := range sgl {
		_, sgl[i] = region(t, table, 4096, memory.RightRemoteWrite)
	}
	o := packet.NewOut(&linktest.Frames{})
	o.Begin(4096)
	for _, n := range []int{0, 0, 1, 0, 1} {
		if !m.PutWrite(&o, &SGE{Addr: sgl[n].Addr, Len: 64, Token: sgl[n].Token}, 64, sgl[n].Addr, sgl[n].Token) {
			t.Fatal("no room")
		}
	}
	p := o.Seal(1, wire.NotECT, &wire.BaseFields{Operations: true})
	rx := &link.RxPacket{N: p.N, Len: p.Len, At: wire.BaseHeaderLen, Frags: p.Frags}
	var w packet.Walk
	for w.Start(rx, p.Frags[0].Data, 0); w.More(); {
		if d := w.Step(); d != wire.DropNone || !m.Write(&w.Op, &w) {
			t.Fatal(d)
		}
	}
	for range 2 { // counts once
		writes.Settle()
		for i, want := range []uint64{3, 2} {
			if _, writes := table.Lookup(sgl[i].Token).RemoteAccesses(); writes != want {
				t.Errorf("%d pieces are counted, want %d", writes, want)
			}
		}
	}
}

// After Done the token of a binding that has ended is invalid, also if its window has a new token.
func TestDoneForgetsWhatWasFound(t *testing.T) {
	table := memory.NewTable(rand.New(rand.NewPCG(1, 2)))
	r, err := table.Register(make([]byte, 4096), memory.RightLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	w, err := table.NewWindow()
	if err != nil {
		t.Fatal(err)
	}
	u := memory.NewUser(nil)
	m := Memory{Table: table, User: &u}
	bind := func() memory.Token {
		b, ok := w.Prepare(r, r.Base(), 64, r.Base(), memory.RightRemoteWrite)
		if !ok || table.Bind(&u, &b) != outcome.Success {
			t.Fatal("no binding")
		}
		return b.Posted()
	}
	first := bind()
	if dst, _ := m.Written(first, r.Base(), 64); dst == nil {
		t.Fatal("a peer cannot write where it may")
	}
	table.Unbind(&u, w)
	bind()
	m.Done()
	if dst, _ := m.Written(first, r.Base(), 64); dst != nil {
		t.Error("the token of a binding that is over")
	}
}

// A packet refers to memory of the link by its true position, whatever address a fast registration gives to the memory.
func TestFastRegionRefersToItsMemory(t *testing.T) {
	table := memory.NewTable(rand.New(rand.NewPCG(1, 2)))
	const size, linkID, at, base = 64 << 10, 1 << 20, 8 << 10, 1 << 50
	r, err := table.RegisterLink(make([]byte, size), linkID, memory.RightLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	w, err := table.NewFastRegion()
	if err != nil {
		t.Fatal(err)
	}
	u := memory.NewUser(nil)
	b, ok := w.Prepare(r, r.Base()+at, 32<<10, base, 0)
	if !ok || table.Bind(&u, &b) != outcome.Success {
		t.Fatal("no binding")
	}
	const off, n = 100, 8000
	pieces := send(t, Memory{Table: table, User: &u}, 8972, false, []SGE{{Addr: base, Len: 32 << 10, Token: b.Posted()}}, off, n)
	if got := pieces[1]; got.ID != linkID+at+off || &got.Data[0] != &r.Bytes()[at+off] {
		t.Errorf("it refers to %#x, want %#x", got.ID, linkID+at+off)
	}
}
