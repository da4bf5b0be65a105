package ndk

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// mapped is a mapping of buf that lasts until the end of the test.
func mapped(t *testing.T, a *Adapter, buf []byte) *LAM {
	t.Helper()
	lam := &LAM{Pages: make([]LogicalAddress, 0, PagesOf(len(buf)))}
	_, s := a.BuildLAM(buf, lam, nil, nil)
	want(t, "build", s, StatusSuccess)
	t.Cleanup(func() { a.ReleaseLAM(lam) })
	return lam
}

// fast is a region of the end's domain for fast registration, initialized for 4 pages.
func (e *end) fast(t *testing.T, remote bool) *MR {
	t.Helper()
	m, s := e.pd.CreateMR(true, nil, nil)
	created(t, m, s)
	t.Cleanup(func() { closed(t, m.Close) })
	want(t, "initialise", m.InitializeFastRegister(4, remote, nil, nil), StatusSuccess)
	return m
}

// fastBase is the base address of fast registrations in these tests.
const fastBase = 0x40000

// building calls BuildLAM for two pages in the way that a row requires.
func building(buf []byte, room int) func(e *end, done Completion, context any) Status {
	return func(e *end, done Completion, context any) Status {
		lam := &LAM{Pages: make([]LogicalAddress, 0, room)}
		n, s := e.a.BuildLAM(buf, lam, done, context)
		if n != PagesOf(len(buf)) {
			return statusInternal
		}
		if s != StatusPending {
			e.a.ReleaseLAM(lam)
		}
		return s
	}
}

func lamRows() map[string]provoke {
	rows := map[string]provoke{}
	const key = "Adapter/NDK_FN_BUILD_LAM/STATUS_"
	on := func(call func(e *end, done Completion, context any) Status) provoke {
		return func(t *testing.T, r *rig) Status { return call(newEnd(t, r.a, 64), nil, nil) }
	}
	rows[key+"SUCCESS"] = on(building(make([]byte, PageSize+1), 2))
	rows[key+"INVALID_PARAMETER"] = on(building(nil, 2))
	rows[key+"ACCESS_VIOLATION"] = func(t *testing.T, r *rig) Status {
		return building(readOnly(t), 1)(newEnd(t, r.a, 64), nil, nil)
	}
	rows[key+"BUFFER_TOO_SMALL"] = on(building(make([]byte, PageSize+1), 1))
	rows[key+"PENDING"] = func(t *testing.T, r *rig) Status {
		lam := &LAM{Pages: make([]LogicalAddress, 0, 2)}
		p := ask(t, func(done Completion, context any) Status {
			_, s := r.a.BuildLAM(make([]byte, PageSize+1), lam, done, context)
			return s
		})
		want(t, "build", p.finish(t), StatusSuccess)
		if len(lam.Pages) != 2 || lam.Pages[1] != lam.Pages[0]+PageSize {
			t.Errorf("%+v", lam)
		}
		r.a.ReleaseLAM(lam)
		return p.inline
	}
	rows[key+"INSUFFICIENT_RESOURCES"] = func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		for err := error(nil); err == nil; {
			_, err = r.a.verbs.Memory.Register(make([]byte, 1), 0)
		}
		return building(make([]byte, 1), 1)(e, nil, nil)
	}
	rows[key+"DEVICE_REMOVED"] = func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		e := newEnd(t, r.a, 64)
		r.removeInterface(t)
		return building(make([]byte, 1), 1)(e, nil, nil)
	}
	rows["Adapter/NDK_FN_RELEASE_LAM/(none)"] = func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		used := r.a.verbs.Memory.Count()
		want(t, "build", building(make([]byte, 1), 1)(e, nil, nil), StatusSuccess) // and releases the mapping
		if r.a.verbs.Memory.Count() != used {
			t.Error("the mapping is there")
		}
		return noStatus
	}
	rows["PD/NDK_FN_GET_PRIVILEGED_MEMORY_REGION_TOKEN/(value)"] = privileged
	return rows
}

// readOnly is a page that cannot be written.
func readOnly(t testing.TB) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, PageSize, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(b)) })
	return b
}

// privileged reads and writes mapped memory by the privileged token, and tries the token as a peer.
func privileged(t *testing.T, r *rig) Status {
	client, server := r.connected(t)
	buf := []byte("mapped, and not registered")
	lam := mapped(t, client.a, buf)
	token := client.pd.PrivilegedToken()
	entry := []SGE{{Buffer: buf, Token: token}}
	client.qp.Write(1, entry, server.mr.Address(), server.mr.RemoteToken(), 0)
	client.wantResult(t, 1, OperationWrite, StatusSuccess)
	r.b.sync()
	if !bytes.Equal(server.mr.Bytes()[:len(buf)], buf) {
		t.Error("the peer has other bytes")
	}
	copy(server.mr.Bytes(), "read back")
	r.b.sync() // waits until no engine reads it for the peer
	client.qp.Read(2, entry, server.mr.Address(), server.mr.RemoteToken(), 0)
	client.wantResult(t, 2, OperationRead, StatusSuccess)
	if string(buf[:9]) != "read back" {
		t.Errorf("%q", buf)
	}
	server.qp.Write(3, []SGE{server.mr.SGE(0, 8)}, uint64(lam.Pages[0]), token, 0)
	server.wantResult(t, 3, OperationWrite, StatusAccessViolation)
	return noStatus
}

func initializeRows() map[string]provoke {
	rows := map[string]provoke{}
	const key = "MR/NDK_FN_INITIALIZE_FAST_REGISTER_MR/STATUS_"
	initialize := func(fast bool, pages uint32) func(e *end, done Completion, context any) Status {
		return func(e *end, done Completion, context any) Status {
			m := e.mr
			if fast {
				var s Status
				if m, s = e.pd.CreateMR(true, nil, nil); s != StatusSuccess {
					return s
				}
				defer m.Close(nil, nil)
			}
			return m.InitializeFastRegister(pages, true, done, context)
		}
	}
	rows[key+"SUCCESS"] = asked(initialize(true, 1), false)
	rows[key+"PENDING"] = asked(initialize(true, maxFastPages), true)
	rows[key+"IMPLEMENTATION_LIMIT"] = asked(initialize(true, maxFastPages+1), false)
	rows[key+"INVALID_DEVICE_REQUEST"] = asked(initialize(false, 1), false)
	rows[key+"DEVICE_REMOVED"] = func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		m, s := newEnd(t, r.a, 64).pd.CreateMR(true, nil, nil)
		created(t, m, s)
		t.Cleanup(func() { closed(t, m.Close) })
		r.removeInterface(t)
		return m.InitializeFastRegister(1, true, nil, nil)
	}
	return rows
}

// fastPost posts a fast registration of n bytes of e's first two mapped pages.
func fastPost(e *end, m *MR, pages []LogicalAddress, n uint64, flags OpFlags) Status {
	return e.qp.FastRegister(1, m, pages, 0, n, fastBase, flags)
}

func fastRows() map[string]provoke {
	rows := map[string]provoke{}
	const key = "QP/NDK_FN_FAST_REGISTER/STATUS_"
	on := func(remote bool, flags OpFlags) provoke {
		return func(t *testing.T, r *rig) Status {
			e, _ := r.connected(t)
			m, lam := e.fast(t, remote), mapped(t, e.a, make([]byte, 2*PageSize))
			if m.RemoteToken() != 0 || m.LocalToken() == 0 {
				t.Error("tokens before the first registration")
			}
			s := fastPost(e, m, lam.Pages, 2*PageSize, flags)
			if s == StatusSuccess && (m.RemoteToken() == 0 || m.Address() != fastBase || len(m.Bytes()) != 2*PageSize) {
				t.Errorf("token %x, %d bytes at %#x", m.RemoteToken(), len(m.Bytes()), m.Address())
			}
			return s
		}
	}
	rows[key+"SUCCESS"] = on(true, OpAllowRemoteRead|OpAllowRemoteWrite|OpRDMAReadSink)
	rows[key+"ACCESS_VIOLATION"] = on(false, OpAllowRemoteRead)
	rows[key+"CONNECTION_INVALID"] = func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		return fastPost(e, e.fast(t, true), mapped(t, e.a, make([]byte, 8)).Pages, 8, 0)
	}
	rows[key+"NO_MORE_ENTRIES"] = func(t *testing.T, r *rig) Status {
		e, _ := r.connected(t)
		m, lam := e.fast(t, true), mapped(t, e.a, make([]byte, 8))
		return fill(func() Status { return fastPost(e, m, lam.Pages, 8, OpDefer) })
	}
	rows[key+"INVALID_PARAMETER"] = fastRefusals
	provoked := func(post func(e *end, m *MR, pages []LogicalAddress)) provoke {
		return results(OperationFastRegister, func(t *testing.T, c, _ *end) {
			post(c, c.fast(t, true), mapped(t, c.a, make([]byte, 8)).Pages)
		})
	}
	const result = "CQ/Result:FastRegister/STATUS_"
	rows[result+"SUCCESS"] = provoked(func(e *end, m *MR, pages []LogicalAddress) { fastPost(e, m, pages, 8, 0) })
	rows[result+"CANCELLED"] = results(OperationFastRegister, func(t *testing.T, c, _ *end) {
		c.qp.Send(0, nil, 0) // waits for a receive, and so do the requests behind it: a deferred request may execute at any time
		fastPost(c, c.fast(t, true), mapped(t, c.a, make([]byte, 8)).Pages, 8, OpDefer)
		c.qp.Flush()
		c.wantResult(t, 0, OperationSend, StatusCancelled)
	})
	rows[result+"INVALID_DEVICE_REQUEST"] = provoked(func(e *end, m *MR, pages []LogicalAddress) {
		fastPost(e, m, pages, 8, OpSilentSuccess)
		fastPost(e, m, pages, 8, 0)
	})
	return rows
}

// fastRefusals returns the status of invalid arguments of FastRegister.
func fastRefusals(t *testing.T, r *rig) Status {
	e, _ := r.connected(t)
	m, lam := e.fast(t, true), mapped(t, e.a, make([]byte, 6*PageSize-1))
	other := newEnd(t, r.a, 64).fast(t, true)
	p := lam.Pages
	for name, c := range map[string]struct {
		m         *MR
		pages     []LogicalAddress
		offset    uint32
		n, base   uint64
		flags     OpFlags
		unrefused bool
	}{
		"flags":            {m: m, pages: p[:1], n: 8, flags: OpInline},
		"no region":        {pages: p[:1], n: 8},
		"another domain's": {m: other, pages: p[:1], n: 8},
		"for Register":     {m: e.mr, pages: p[:1], n: 8},
		"no pages":         {m: m, n: 8},
		"too many pages":   {m: m, pages: p[:5], n: 8},
		"not mapped":       {m: m, pages: []LogicalAddress{PageSize}, n: 8},
		"out of order":     {m: m, pages: []LogicalAddress{p[1], p[0]}, n: 8},
		"gap":              {m: m, pages: []LogicalAddress{p[0], p[2]}, n: 8},
		"inside a page":    {m: m, pages: []LogicalAddress{p[0] + 1}, n: 8},
		"offset":           {m: m, pages: p[:2], offset: PageSize, n: 8},
		"base":             {m: m, pages: p[:1], offset: 8, n: 8, base: PageSize},
		"base wraps":       {m: m, pages: p[:1], n: PageSize, base: -PageSize & (1<<64 - 1)},
		"empty":            {m: m, pages: p[:1]},
		"too long":         {m: m, pages: p[:1], offset: 1, n: PageSize, base: 1},
		"past the memory":  {m: m, pages: p[5:], n: PageSize},
		"right":            {m: m, pages: p[2:6], offset: 1, n: 4*PageSize - 2, base: PageSize + 1, unrefused: true},
	} {
		s := e.qp.FastRegister(1, c.m, c.pages, c.offset, c.n, c.base, c.flags)
		if (s == StatusSuccess) != c.unrefused || s != StatusSuccess && s != StatusInvalidParameter {
			t.Errorf("%s: %s", name, s.Name())
		}
	}
	return e.qp.FastRegister(1, nil, nil, 0, 0, 0, 0)
}

// The sequence of a typical program: register, let the peer write, let it invalidate with its answer, register the next pages; and
// use the region locally.
func TestFastRegisterInTraffic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, server := r.connected(t)
	buf := make([]byte, 4*PageSize)
	m, lam := client.fast(t, true), mapped(t, client.a, buf)
	for i := range 4 {
		const n = 64
		s := client.qp.FastRegister(1, m, lam.Pages[i:i+1], 16, n, fastBase+16, OpSilentSuccess|OpAllowRemoteRead|OpAllowRemoteWrite)
		want(t, "fast register", s, StatusSuccess)
		client.qp.Write(2, []SGE{m.SGE(0, n)}, server.mr.Address(), server.mr.RemoteToken(), 0)
		client.wantResult(t, 2, OperationWrite, StatusSuccess)
		r.b.sync()
		server.mr.Bytes()[5] = byte(i + 1)
		client.qp.Receive(3, nil)
		server.qp.Write(4, []SGE{server.mr.SGE(0, n)}, m.Address(), m.RemoteToken(), OpSilentSuccess)
		server.qp.SendAndInvalidate(5, nil, 0, m.RemoteToken())
		server.wantResult(t, 5, OperationSend, StatusSuccess)
		if x := client.wantResult(t, 3, OperationReceiveAndInvalidate, StatusSuccess); x.Invalidated != m.RemoteToken() {
			t.Errorf("invalidated %x", x.Invalidated)
		}
		if buf[i*PageSize+16+5] != byte(i+1) {
			t.Errorf("page %d has other bytes", i)
		}
	}
	want(t, "fast register", fastPost(client, m, lam.Pages, 8, 0), StatusSuccess)
	client.wantResult(t, 1, OperationFastRegister, StatusSuccess)
	want(t, "invalidate", client.qp.Invalidate(2, m, 0), StatusSuccess)
	client.wantResult(t, 2, OperationInvalidate, StatusSuccess)
	want(t, "a registered region", client.qp.Invalidate(2, client.mr, 0), StatusInvalidParameter)
	want(t, "register", m.Register(buf, 0, nil, nil), StatusInvalidParameter)
	want(t, "deregister", m.Deregister(nil, nil), StatusInvalidDeviceState)
}

// Posting a fast registration allocates nothing.
func TestFastRegisterDoesNotAllocate(t *testing.T) {
	r := newRig(t)
	client, _ := r.connected(t)
	m, lam := client.fast(t, true), mapped(t, client.a, make([]byte, PageSize))
	var res [8]Result
	round := func() {
		fastPost(client, m, lam.Pages, PageSize, OpAllowRemoteRead|OpDefer)
		client.qp.Invalidate(2, m, 0)
		for n := 0; n < 2; {
			n += client.cq.GetResults(res[:])
		}
	}
	for range 1000 { // buffers grow to their size once
		round()
	}
	if n := testing.AllocsPerRun(2000, round); n != 0 && !raceEnabled {
		t.Errorf("%v allocations for a FastRegister, an Invalidate and their results", n)
	}
	if m.RemoteToken() == 0 {
		t.Error("nothing was registered")
	}
}
