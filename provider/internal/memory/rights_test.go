package memory

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/outcome"
)

const all = RightLocalWrite | RightRemoteRead | RightRemoteWrite

// desk is a table with a region of 4096 bytes, and two users of one domain.
type desk struct {
	*testing.T
	*Table
	domain *Domain
	one    User
	two    User
	region *Region
}

func newDesk(t *testing.T, rights Rights) *desk {
	t.Helper()
	d := &desk{T: t, Table: NewTable(rand.New(rand.NewPCG(1, 2))), domain: new(Domain)}
	d.one, d.two = NewUser(d.domain), NewUser(d.domain)
	d.region = d.register(d.domain, rights)
	return d
}

func (d *desk) register(domain *Domain, rights Rights) *Region {
	d.Helper()
	r, err := d.RegisterIn(domain, make([]byte, 4096), rights, false)
	if err != nil {
		d.Fatal(err)
	}
	return r
}

// bound makes a window, or a region for fast registration, and binds n bytes at off to u, at the address base.
func (d *desk) bound(u *User, fast bool, off, n, base uint64, rights Rights) *Window {
	d.Helper()
	w, err := d.newWindow(fast)
	if err != nil {
		d.Fatal(err)
	}
	d.bind(u, w, off, n, base, rights)
	return w
}

func (d *desk) bind(u *User, w *Window, off, n, base uint64, rights Rights) {
	d.Helper()
	b, ok := w.Prepare(d.region, d.region.Base()+off, n, base, rights)
	if !ok {
		d.Fatal("the binding is refused")
	}
	b.Posted()
	d.want(d.Bind(u, &b), outcome.Success)
}

func (d *desk) want(got, want outcome.Outcome) {
	d.Helper()
	if got != want {
		d.Errorf("%v, want %v", got, want)
	}
}

// remote reports whether the peer of u may use n bytes at addr by the token t.
func (d *desk) remote(u *User, t Token, addr, n uint64, need Rights) bool {
	b, g := new(Recent).Remote(d.Table, u, t, addr, n, need)
	return b != nil && g != nil && uint64(len(b)) == n && uint64(cap(b)) == n
}

// local reports the same for requests of u, which must get the region of the memory.
func (d *desk) local(u *User, t Token, addr, n uint64, need Rights) bool {
	b, g := new(Recent).Local(d.Table, u, t, addr, n, need)
	return b != nil && g.region == d.region && uint64(len(b)) == n
}

// Each right that a region lacks is refused on its own. Local reads need no right.
func TestRightsOfARegion(t *testing.T) {
	for given := range all + 1 {
		d := newDesk(t, given)
		has := given
		if has&RightRemoteWrite != 0 {
			has |= RightLocalWrite
		}
		token, base := d.region.Token(), d.region.Base()
		for need := range all + 1 {
			want := has&need == need
			if d.remote(&d.one, token, base, 8, need) != want || d.local(&d.one, token, base, 8, need) != want {
				t.Errorf("rights %b, wanted %b: want %v", given, need, want)
			}
		}
	}
}

// A region of a domain serves the users of that domain. A region without a domain serves all users, and also callers without a
// user.
func TestDomainsOfRegions(t *testing.T) {
	d := newDesk(t, all)
	stranger, open := NewUser(new(Domain)), NewUser(nil)
	common := d.register(nil, all)
	for name, c := range map[string]struct {
		u    *User
		want bool
	}{"its own": {&d.one, true}, "the same domain": {&d.two, true}, "another domain": {&stranger, false}, "no domain": {&open, false}, "nobody": {nil, false}} {
		if got := d.remote(c.u, d.region.Token(), d.region.Base(), 1, RightRemoteRead); got != c.want {
			t.Errorf("%s, peer: %v", name, got)
		}
		if got := d.local(c.u, d.region.Token(), d.region.Base(), 1, 0); got != c.want {
			t.Errorf("%s, here: %v", name, got)
		}
		if b, g := new(Recent).Local(d.Table, c.u, common.Token(), common.Base(), 1, 0); b == nil || g.region != common {
			t.Errorf("%s may not use the region of all", name)
		}
	}
}

// A window serves the peer of the user it is bound to, while it is bound, with the rights and bytes of its binding.
func TestWindowIsOfItsUser(t *testing.T) {
	d := newDesk(t, RightLocalWrite)
	w := d.bound(&d.one, false, 64, 128, 1<<20, RightRemoteRead)
	token := w.Token()
	for name, c := range map[string]struct {
		u       *User
		addr, n uint64
		need    Rights
		want    bool
	}{
		"its bytes":     {&d.one, 1 << 20, 128, RightRemoteRead, true},
		"other user":    {&d.two, 1 << 20, 128, RightRemoteRead, false},
		"nobody":        {nil, 1 << 20, 128, RightRemoteRead, false},
		"other right":   {&d.one, 1 << 20, 128, RightRemoteWrite, false},
		"byte before":   {&d.one, 1<<20 - 1, 8, RightRemoteRead, false},
		"byte behind":   {&d.one, 1<<20 + 121, 8, RightRemoteRead, false},
		"region's name": {&d.one, d.region.Base() + 64, 8, RightRemoteRead, false},
	} {
		if got := d.remote(c.u, token, c.addr, c.n, c.need); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if d.local(&d.one, token, 1<<20, 8, 0) || d.Lookup(token) != nil {
		t.Error("a request of its own side may name a window")
	}
	if !d.one.HasWindows() || d.two.HasWindows() || d.Windows(d.region) != 1 {
		t.Error("the window is not listed at its user and its region")
	}
	d.want(d.Unbind(&d.two, w), outcome.InvalidRequest)
	d.want(d.UnbindToken(&d.two, token), outcome.InvalidRequest)
	d.want(d.UnbindToken(&d.one, d.region.Token()), outcome.InvalidRequest)
	d.want(d.UnbindToken(&d.one, token), outcome.Success)
	d.want(d.Unbind(&d.one, w), outcome.InvalidRequest)
	if d.remote(&d.one, token, 1<<20, 8, RightRemoteRead) || d.one.HasWindows() || w.Bound() {
		t.Error("the window serves after its end")
	}
	d.bind(&d.two, w, 0, 64, 1<<20, RightRemoteRead)
	if d.remote(&d.two, token, 1<<20, 8, RightRemoteRead) || !d.remote(&d.two, w.Token(), 1<<20, 8, RightRemoteRead) {
		t.Error("a new binding goes by the old token, or not by its own")
	}
}

// A fast-registered region serves its user's own requests with the rights that were given, and its user's peer.
func TestFastRegionIsOfItsUser(t *testing.T) {
	d := newDesk(t, RightLocalWrite)
	w := d.bound(&d.one, true, 0, 64, 1<<30, RightRemoteRead)
	token := w.Token()
	if !w.Fast() || !d.local(&d.one, token, 1<<30, 64, 0) || !d.remote(&d.one, token, 1<<30, 64, RightRemoteRead) {
		t.Error("it does not serve its user")
	}
	for name, may := range map[string]bool{
		"here, writing":    d.local(&d.one, token, 1<<30, 8, RightLocalWrite),
		"here, other user": d.local(&d.two, token, 1<<30, 8, 0),
		"here, nobody":     d.local(nil, token, 1<<30, 8, 0),
		"here, outside":    d.local(&d.one, token, 1<<30+60, 8, 0),
		"peer, other user": d.remote(&d.two, token, 1<<30, 8, RightRemoteRead),
		"peer, writing":    d.remote(&d.one, token, 1<<30, 8, RightRemoteWrite),
	} {
		if may {
			t.Errorf("%s: granted", name)
		}
	}
}

// A window that was never bound has no token. The token that its slot would form is invalid.
func TestWindowThatWasNeverBound(t *testing.T) {
	d := newDesk(t, all)
	w, _ := d.NewWindow()
	if w.Token() != 0 || d.remote(&d.one, Token(d.secret^w.slot)<<16, 0, 0, 0) || d.remote(nil, 0, 0, 0, 0) {
		t.Error("a window grants something before it is bound")
	}
}

// The token of a fast registration is known when it is posted, and valid once it is executed.
func TestFastRegionBeforeItIsBound(t *testing.T) {
	d := newDesk(t, RightLocalWrite)
	w, err := d.NewFastRegion()
	if err != nil || w.Token() == 0 {
		t.Fatal(err)
	}
	if buf, _ := d.Posted(w.Token()); buf != nil {
		t.Error("it names memory before the first registration")
	}
	b, _ := w.Prepare(d.region, d.region.Base()+8, 16, 1<<30, all)
	token := b.Posted()
	if buf, base := d.Posted(token); len(buf) != 16 || &buf[0] != &d.region.Bytes()[8] || base != 1<<30 {
		t.Errorf("%d bytes at %#x", len(buf), base)
	}
	if buf, _ := d.Posted(token ^ 1); buf != nil {
		t.Error("another token names it")
	}
	if d.local(&d.one, token, 1<<30, 8, 0) || w.Bound() {
		t.Error("the registration is valid before it is executed")
	}
}

func TestBindingsThatAreRefused(t *testing.T) {
	d := newDesk(t, 0)
	w, _ := d.NewWindow()
	gone := d.register(nil, all)
	d.want(d.Deregister(gone), outcome.Success)
	base := d.region.Base()
	for name, c := range map[string]struct {
		r             *Region
		addr, n, base uint64
		rights        Rights
	}{
		"outside":       {d.region, base + 4090, 7, base, 0},
		"before":        {d.region, base - 1, 7, base, 0},
		"gone":          {gone, gone.Base(), 7, base, 0},
		"wraps":         {d.region, base, 8, math.MaxUint64 - 6, 0},
		"missing right": {d.region, base, 8, base, RightRemoteWrite},
		"writing here":  {d.region, base, 8, base, RightLocalWrite},
	} {
		if _, ok := w.Prepare(c.r, c.addr, c.n, c.base, c.rights); ok {
			t.Errorf("%s: not refused", name)
		}
	}
	if _, ok := w.Prepare(d.region, base, 4096, math.MaxUint64-4096, RightRemoteRead); !ok || w.Token() != 0 {
		t.Error("a valid access is refused, or has a token before the post")
	}
}

// Changes between the post of a Bind and its execution are detected at the execution.
func TestBindOfWhatChanged(t *testing.T) {
	d := newDesk(t, all)
	w := d.bound(&d.one, false, 0, 64, 0, RightRemoteRead)
	b, _ := w.Prepare(d.region, d.region.Base(), 64, 0, RightRemoteRead)
	d.want(d.Bind(&d.one, &b), outcome.InvalidRequest) // bound already
	d.want(d.Deregister(d.region), outcome.DeviceBusy)
	d.UnbindAll(&d.one)
	d.want(d.Deregister(d.region), outcome.Success)
	d.want(d.Bind(&d.one, &b), outcome.AccessViolation) // the region is gone
	d.ReleaseWindow(w)
	d.want(d.Bind(&d.one, &b), outcome.InvalidRequest) // the window is gone
}

// The end of a user, a region or a window ends the bindings that depend on it, and no others.
func TestEndsOfBindings(t *testing.T) {
	d := newDesk(t, all)
	first, second, other := d.bound(&d.one, false, 0, 8, 0, 0), d.bound(&d.one, true, 0, 8, 0, 0), d.bound(&d.two, false, 0, 8, 0, 0)
	told := 0
	if !d.WhenUnbound(d.region, func(o outcome.Outcome) { told++; d.want(o, outcome.Success) }) {
		t.Fatal("three windows are bound")
	}
	d.UnbindAll(&d.one)
	if first.Bound() || second.Bound() || !other.Bound() || d.one.HasWindows() || told != 0 {
		t.Errorf("bound %v, %v, %v; told %d times", first.Bound(), second.Bound(), other.Bound(), told)
	}
	d.bind(&d.one, first, 0, 8, 0, 0)
	d.ReleaseWindow(first)
	d.ReleaseWindow(first) // harmless
	if first.Bound() || d.Windows(d.region) != 1 || told != 0 {
		t.Errorf("released: %d windows, told %d times", d.Windows(d.region), told)
	}
	d.Release(d.region)
	d.Release(d.region) // harmless
	if other.Bound() || told != 1 || d.Count() != 0 || d.WhenUnbound(d.region, nil) {
		t.Errorf("region gone: bound %v, told %d times, %d regions", other.Bound(), told, d.Count())
	}
}

// Bindings end in any order, and the list of a user's windows stays consistent.
func TestUnbindInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	d := newDesk(t, all)
	var ws []*Window
	for range 50 {
		for len(ws) < 8 {
			ws = append(ws, d.bound(&d.one, false, 0, 8, 0, RightRemoteRead))
		}
		rng.Shuffle(len(ws), func(i, j int) { ws[i], ws[j] = ws[j], ws[i] })
		n := rng.IntN(len(ws))
		for _, w := range ws[:n] {
			d.want(d.Unbind(&d.one, w), outcome.Success)
			d.ReleaseWindow(w)
		}
		ws = ws[n:]
		listed := 0
		for w := d.one.windows; w != nil; w = w.next {
			listed++
			if w.next != nil && w.next.prev != w {
				t.Fatal("the list does not lead back")
			}
		}
		if listed != len(ws) || d.Windows(d.region) != len(ws) {
			t.Fatalf("%d of %d are listed", listed, len(ws))
		}
	}
}

// Every byte of the link's memory has a position in it.
func TestLinkMemory(t *testing.T) {
	d := newDesk(t, all)
	r, err := d.RegisterLink(make([]byte, 100), 1<<16, all)
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := r.LinkID(r.Base() + 7); id != 1<<16+7 || !ok {
		t.Errorf("%#x, %v", id, ok)
	}
	if _, ok := d.region.LinkID(d.region.Base()); ok {
		t.Error("other memory has a name at the link")
	}
}

// Accesses of peers count for the region that the token names.
func TestAccessCounts(t *testing.T) {
	d := newDesk(t, all)
	w := d.bound(&d.one, false, 0, 8, 0, RightRemoteRead)
	_, g := new(Recent).Remote(d.Table, &d.one, w.Token(), 0, 8, RightRemoteRead)
	g.CountReads(1)
	_, g = new(Recent).Remote(d.Table, &d.one, d.region.Token(), d.region.Base(), 8, RightRemoteWrite)
	g.CountWrites(1)
	g.CountWrites(1)
	wr, ww := w.RemoteAccesses()
	rr, rw := d.region.RemoteAccesses()
	if wr != 1 || ww != 0 || rr != 0 || rw != 2 {
		t.Errorf("window %d, %d; region %d, %d", wr, ww, rr, rw)
	}
}

// Each packet needs a lookup, so lookups allocate nothing.
func TestAllocLookup(t *testing.T) {
	d := newDesk(t, all)
	w := d.bound(&d.one, true, 0, 64, 1<<30, all)
	token, addr := d.region.Token(), d.region.Base()
	if n := testing.AllocsPerRun(100, func() {
		new(Recent).Remote(d.Table, &d.one, token, addr, 64, RightRemoteWrite)
		new(Recent).Local(d.Table, &d.one, token, addr, 64, RightLocalWrite)
		new(Recent).Local(d.Table, &d.one, w.Token(), 1<<30, 64, RightLocalWrite)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Engines look tokens up while other goroutines register, bind and end bindings. A caller that is not the user gets nothing, also
// under the race detector.
func TestLookupsBesideChanges(t *testing.T) {
	d := newDesk(t, all)
	w := d.bound(&d.one, false, 0, 64, 0, RightRemoteRead)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 {
			if d.remote(&d.two, w.Token(), 0, 8, RightRemoteRead) || !d.remote(&d.two, d.region.Token(), d.region.Base(), 8, RightRemoteRead) {
				t.Error("a window of another user is granted, or a region is not")
				return
			}
		}
	}()
	for range 2000 {
		d.want(d.Unbind(&d.one, w), outcome.Success)
		d.bind(&d.one, w, 0, 64, 0, RightRemoteRead)
		d.want(d.Deregister(d.register(nil, 0)), outcome.Success)
	}
	<-done
}

func BenchmarkRemote(b *testing.B) {
	m := NewTable(rand.New(rand.NewPCG(1, 2)))
	u := NewUser(new(Domain))
	r, err := m.RegisterIn(u.domain, make([]byte, 4096), all, false)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if buf, _ := new(Recent).Remote(m, &u, r.Token(), r.Base(), 64, RightRemoteWrite); buf == nil {
			b.Fatal("refused")
		}
	}
}
