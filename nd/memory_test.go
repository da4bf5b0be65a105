package nd

import (
	"bytes"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

func TestRegisterMemory(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	buf := make([]byte, 8192)
	for _, c := range []struct {
		name  string
		buf   []byte
		flags MRFlags
		want  Status
	}{
		{"nil", nil, 0, ErrInvalidParameter},
		{"empty", buf[:0], 0, ErrInvalidBufferSize},
		{"unknown flag", buf, 16, ErrInvalidParameterN(3)},
		{"all flags", buf, knownMRFlags, StatusSuccess},
		{"no flag", buf, 0, StatusSuccess},
		{"DO_NOT_SECURE_VM", buf, 0x80000000, StatusSuccess},
		{"same memory again", buf[1:5], MRAllowRemoteRead, StatusSuccess},
	} {
		mr, err := r.a.RegisterMemory(c.buf, c.flags)
		wantStatus(t, c.name, err, c.want)
		if err != nil {
			continue
		}
		if mr.LocalToken() == 0 || len(mr.Bytes()) != len(c.buf) {
			t.Errorf("%s: token %d, %d bytes", c.name, mr.LocalToken(), len(mr.Bytes()))
		}
		must(t, mr.Close())
		must(t, mr.Close())
	}
	for _, c := range []struct {
		n    int
		want Status
	}{
		{-1, ErrInvalidParameter},
		{0, ErrInvalidBufferSize},
		{1<<40 + 1, ErrInvalidParameter},
		{1 << 40, ErrNoMemory},
		{1, StatusSuccess},
		{64 << 20, StatusSuccess},
	} {
		mr, err := r.a.AllocateMemory(c.n, 0)
		wantStatus(t, "allocate", err, c.want)
		if err == nil {
			must(t, mr.Close())
		}
	}
	_, err := r.a.AllocateMemory(1, 16)
	wantStatus(t, "allocate with an unknown flag", err, ErrInvalidParameterN(3))
}

// Read-only memory cannot be registered with a right to write: a peer's Write would crash the process. The error gives the reason,
// and registration for reads succeeds.
func TestRegisterReadOnlyMemory(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	buf := readOnly(t)
	m, err := r.a.CreateMemoryRegion()
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	for _, flags := range []MRFlags{MRAllowLocalWrite, MRAllowRemoteWrite, MRAllowRemoteRead | MRAllowRemoteWrite | MRDoNotSecureVM} {
		err := m.Register(buf, flags)
		wantStatus(t, "register", err, ErrAccessViolation)
		wantOneLine(t, err, "register memory", "byte 0 of 4096 is mapped read-only", "map it writable")
	}
	_, err = r.a.RegisterMemory(buf[5:10], MRAllowLocalWrite)
	wantStatus(t, "a part of it", err, ErrAccessViolation)

	must(t, m.Register(buf, MRAllowRemoteRead|MRDoNotSecureVM))
	server, client := r.ends(t)
	r.join(t, client, server)
	client.mr.Bytes()[0] = 1
	must(t, client.qp.Read(1, []SGE{client.mr.SGE(0, 4096)}, m.Address(), m.RemoteToken(), 0))
	client.wantResult(t, 1, RequestRead, StatusSuccess)
	if client.mr.Bytes()[0] != 0 {
		t.Error("nothing was read")
	}
}

func TestManyRegions(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	buf := make([]byte, 4096)
	var all []*MemoryRegion
	tokens := map[Token]bool{}
	for {
		mr, err := r.a.RegisterMemory(buf, MRAllowRemoteWrite)
		if err != nil {
			wantStatus(t, "table full", err, ErrInsufficientResources)
			break
		}
		if tokens[mr.RemoteToken()] {
			t.Fatal("a token was given twice")
		}
		tokens[mr.RemoteToken()] = true
		all = append(all, mr)
	}
	if len(all) < 10000 {
		t.Errorf("only %d regions", len(all))
	}
	stale := all[7]
	must(t, stale.Close())
	again, err := r.a.RegisterMemory(buf, 0)
	must(t, err)
	if again.LocalToken() == stale.LocalToken() || r.a.verbs.Memory.Lookup(provider.Token(stale.LocalToken())) != nil {
		t.Error("a stale token names a new region")
	}
}

// A request with memory that it may not use fails when it is executed, and ends the connection for both sides.
func TestLocalMemoryViolations(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	closed, err := r.a.RegisterMemory(make([]byte, 64), MRAllowLocalWrite)
	must(t, err)
	must(t, closed.Close())
	foreign, err := r.b.RegisterMemory(make([]byte, 64), MRAllowLocalWrite)
	must(t, err)
	readOnly, err := r.a.RegisterMemory(make([]byte, 64), 0)
	must(t, err)
	for _, c := range []struct {
		name string
		sge  func(e *end) SGE
		only RequestType // one kind; 255: Send, Write and Read
	}{
		{"outside", func(e *end) SGE { return SGE{Buffer: make([]byte, 64), Token: e.mr.LocalToken()} }, 255},
		{"half outside", func(e *end) SGE {
			half, err := r.a.RegisterMemory(e.mr.Bytes()[:32], MRAllowLocalWrite)
			must(t, err)
			return SGE{Buffer: e.mr.Bytes()[:64], Token: half.LocalToken()}
		}, 255},
		{"wrong token", func(e *end) SGE { return SGE{Buffer: e.mr.Bytes()[:64], Token: e.mr.LocalToken() + 1} }, 255},
		{"zero token", func(e *end) SGE { return SGE{Buffer: e.mr.Bytes()[:64]} }, 255},
		{"foreign adapter", func(*end) SGE { return foreign.SGE(0, 64) }, 255},
		{"closed region", func(*end) SGE { return closed.SGE(0, 64) }, 255},
		{"sink not writable", func(*end) SGE { return readOnly.SGE(0, 64) }, RequestRead},
	} {
		for _, kind := range []RequestType{RequestSend, RequestWrite, RequestRead} {
			if c.only != 255 && c.only != kind {
				continue
			}
			t.Run(c.name+" "+kind.String(), func(t *testing.T) {
				client, server := r.connect(t, 4096)
				must(t, server.qp.Receive(9, []SGE{server.mr.SGE(0, 64)}))
				must(t, client.qp.Receive(8, nil))
				list := []SGE{client.mr.SGE(0, 8), c.sge(client)}
				switch kind {
				case RequestSend:
					must(t, client.qp.Send(1, list, OpSilentSuccess))
				case RequestWrite:
					must(t, client.qp.Write(1, list, server.mr.Address(), server.mr.RemoteToken(), OpSilentSuccess))
				default:
					must(t, client.qp.Read(1, list, server.mr.Address(), server.mr.RemoteToken(), OpSilentSuccess))
				}
				client.wantResult(t, 1, kind, ErrAccessViolation)
				client.wantResult(t, 8, RequestReceive, ErrCanceled)
				server.wantResult(t, 9, RequestReceive, ErrCanceled)
				must(t, server.ctr.NotifyDisconnect(t.Context()))
			})
		}
	}
}

// Invalid local memory of a Send is reported without a receive of the peer, which has posted none (ND specification 11.1).
func TestLocalMemoryViolationsWithoutAReceive(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	foreign, err := r.b.RegisterMemory(make([]byte, 64), MRAllowLocalWrite)
	must(t, err)
	for name, token := range map[string]Token{"foreign": foreign.LocalToken(), "zero": 0} {
		for _, kind := range []RequestType{RequestSend, RequestWrite} {
			t.Run(name+" "+kind.String(), func(t *testing.T) {
				client, server := r.connect(t, 64)
				list := []SGE{{Buffer: client.mr.Bytes(), Token: token}}
				if kind == RequestSend {
					must(t, client.qp.Send(1, list, 0))
				} else {
					must(t, client.qp.Write(1, list, server.mr.Address(), server.mr.RemoteToken(), 0))
				}
				must(t, client.qp.Write(2, nil, 0, 0, 0)) // behind the Send
				client.wantResult(t, 1, kind, ErrAccessViolation)
				client.wantResult(t, 2, RequestWrite, ErrCanceled)
				must(t, server.ctr.NotifyDisconnect(t.Context()))
			})
		}
	}
}

// If a region is closed while a Send from it waits for a receive, the Send fails: the memory belongs to the program again.
func TestRegionClosedWhileASendWaits(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 64)
	m, err := r.a.RegisterMemory(make([]byte, 64), 0)
	must(t, err)
	must(t, client.qp.Send(1, []SGE{m.SGE(0, 64)}, 0))
	client.wantNoResult(t)
	must(t, m.Close())
	client.wantResult(t, 1, RequestSend, ErrAccessViolation)
	must(t, server.ctr.NotifyDisconnect(t.Context()))
}

func TestReceiveMemoryViolations(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, name := range []string{"not writable", "closed while posted", "wrong token"} {
		t.Run(name, func(t *testing.T) {
			client, server := r.connect(t, 4096)
			flags := MRAllowLocalWrite
			if name == "not writable" {
				flags = 0
			}
			buf := make([]byte, 64)
			mr, err := r.b.RegisterMemory(buf, flags)
			must(t, err)
			sge := mr.SGE(0, 64)
			if name == "wrong token" {
				sge.Token++
			}
			must(t, server.qp.Receive(1, []SGE{sge}))
			if name == "closed while posted" {
				must(t, mr.Close())
			}
			copy(client.mr.Bytes(), "12345678")
			must(t, client.qp.Send(2, []SGE{client.mr.SGE(0, 8)}, 0))
			server.wantResult(t, 1, RequestReceive, ErrAccessViolation)
			client.wantResult(t, 2, RequestSend, ErrRemoteError)
			if !bytes.Equal(buf, make([]byte, 64)) {
				t.Error("the memory was written")
			}
		})
	}
}

// A region is closed while a Send from it waits for the peer's receive.
func TestRegionClosedWhilePosted(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	mr, err := r.a.RegisterMemory(make([]byte, 64), 0)
	must(t, err)
	must(t, client.qp.Send(1, []SGE{mr.SGE(0, 64)}, 0))
	must(t, mr.Close())
	must(t, server.qp.Receive(2, []SGE{server.mr.SGE(0, 64)}))
	client.wantResult(t, 1, RequestSend, ErrAccessViolation)
	server.wantResult(t, 2, RequestReceive, ErrCanceled)
}

// remote is a peer's region with guard bytes around it.
type remote struct {
	all []byte
	mr  *MemoryRegion
}

const guard = 4096

func newRemote(t *testing.T, a *Adapter, size int, flags MRFlags) *remote {
	t.Helper()
	m := &remote{all: bytes.Repeat([]byte{0xa5}, size+2*guard)}
	var err error
	m.mr, err = a.RegisterMemory(m.all[guard:guard+size:guard+size], flags)
	must(t, err)
	return m
}

func (m *remote) wantUntouched(t *testing.T) {
	t.Helper()
	for i, b := range m.all {
		if b != 0xa5 {
			t.Fatalf("byte %d (region from %d to %d) was written", i, guard, len(m.all)-guard)
		}
	}
}

// A remote access that the peer did not grant: the initiator's request reports the reason, the peer sees the connection end, and no
// byte changes.
func TestRemoteMemoryViolations(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	const size, n = 8192, 3000 // more than one packet
	for _, c := range []struct {
		name  string
		flags MRFlags
		aim   func(m *MemoryRegion) (uint64, Token)
		only  RequestType // one kind; 255: Write and Read
	}{
		{"no right to write", MRAllowRemoteRead | MRAllowLocalWrite, inside, RequestWrite},
		{"no right to read", MRAllowRemoteWrite, inside, RequestRead},
		{"no right", 0, inside, 255},
		{"wrong token", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return m.Address(), m.RemoteToken() ^ 1 }, 255},
		{"guessed slot", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return m.Address(), m.RemoteToken() ^ 1<<16 }, 255},
		{"zero token", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return m.Address(), 0 }, 255},
		{"stale token", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { must(t, m.Close()); return m.Address(), m.RemoteToken() }, 255},
		{"before the start", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return m.Address() - 1, m.RemoteToken() }, 255},
		{"one byte past the end", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return m.Address() + size - n + 1, m.RemoteToken() }, RequestRead},
		{"past the end", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return m.Address() + size, m.RemoteToken() }, 255},
		{"address zero", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return 0, m.RemoteToken() }, 255},
		{"near 2^64", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return ^uint64(0) - 9, m.RemoteToken() }, 255},
		{"wraps into the region", knownMRFlags, func(m *MemoryRegion) (uint64, Token) { return m.Address() - 1<<63, m.RemoteToken() }, 255},
	} {
		for _, kind := range []RequestType{RequestWrite, RequestRead} {
			if c.only != 255 && c.only != kind {
				continue
			}
			t.Run(c.name+" "+kind.String(), func(t *testing.T) {
				client, server := r.connect(t, size)
				m := newRemote(t, r.b, size, c.flags)
				must(t, server.qp.Receive(9, []SGE{server.mr.SGE(0, 64)}))
				addr, token := c.aim(m.mr)
				drops := r.b.Stats().Drops["token"]
				if kind == RequestWrite {
					must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, n)}, addr, token, 0))
				} else {
					must(t, client.qp.Read(1, []SGE{client.mr.SGE(0, n)}, addr, token, 0))
				}
				client.wantResult(t, 1, kind, ErrAccessViolation)
				server.wantResult(t, 9, RequestReceive, ErrCanceled)
				server.wantNoResult(t)
				m.wantUntouched(t)
				if kind == RequestRead && !bytes.Equal(client.mr.Bytes()[:n], make([]byte, n)) {
					t.Error("the sink was written")
				}
				if r.b.Stats().Drops["token"] != drops+1 {
					t.Errorf("drops %v, want one more for the token", r.b.Stats().Drops)
				}
				must(t, client.ctr.NotifyDisconnect(t.Context()))
			})
		}
	}
}

func inside(m *MemoryRegion) (uint64, Token) { return m.Address(), m.RemoteToken() }

// A Write that begins inside a region and ends outside may write its first bytes, as hardware does, and never a byte beyond the
// region.
func TestWriteOverTheEndStaysInside(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	const size, n = 8192, 3000
	client, _ := r.connect(t, size)
	m := newRemote(t, r.b, size, MRAllowRemoteWrite)
	must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, n)}, m.mr.Address()+size-n+1, m.mr.RemoteToken(), 0))
	client.wantResult(t, 1, RequestWrite, ErrAccessViolation)
	r.b.sync()
	clear(m.all[guard : guard+size])
	for i := range m.all[guard : guard+size] {
		m.all[guard+i] = 0xa5
	}
	m.wantUntouched(t)
}

// A region is closed while its peer writes. Nothing is written after Close has returned. Earlier Writes may all have arrived, and
// the next Write fails.
func TestRegionClosedWhilePeerWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t, 9000, DatapathAuto)
	const size = 1 << 20
	client, server := r.connect(t, size)
	m := newRemote(t, r.b, size, MRAllowRemoteWrite)
	must(t, server.qp.Receive(9, nil))
	const before = 32
	write := func(i int) {
		must(t, client.qp.Write(uint64(i), []SGE{client.mr.SGE(0, size)}, m.mr.Address(), m.mr.RemoteToken(), 0))
	}
	for i := range before {
		write(i)
	}
	eventually(t, "first bytes", func() bool { _, writes := m.mr.RemoteAccesses(); return writes > 100 })
	must(t, m.mr.Close())
	for i := range m.all {
		m.all[i] = 0xa5
	}
	write(before)
	server.wantResult(t, 9, RequestReceive, ErrCanceled) // the peer's access failed
	m.wantUntouched(t)
	failed := 0
	for range before + 1 {
		switch res := client.result(t); res.Status {
		case ErrAccessViolation:
			failed++
		case ErrCanceled, StatusSuccess:
		default:
			t.Errorf("result %+v", res)
		}
	}
	if failed != 1 {
		t.Errorf("%d requests ended with an access violation, want one", failed)
	}
}
