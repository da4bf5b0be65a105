package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
)

// sge is the entry type of a public package.
type sge struct {
	Buffer []byte
	Token  uint32
}

// end is a queue pair with its objects.
type end struct {
	a  *Adapter
	cq CQ
	mr MR
	qp QP
	k  Connector
}

var rightsOfAll = uint32(localWrite | remoteRead | remoteWrite)

// open opens an adapter that can connect to itself, on an address that no other test uses.
func open(t *testing.T) *Adapter {
	t.Helper()
	a, o, err := Open(plan.Config{Address: netlabtest.Loopback()[0], Datapath: plan.UDP, Arena: -1}, provider.Config{})
	expect(t, "open", o, provider.OutcomeSuccess)
	t.Cleanup(func() {
		if err := errors.Join(err, a.Close()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func expect(t *testing.T, what string, got, want provider.Outcome) {
	t.Helper()
	if got != want {
		t.Errorf("%s: outcome %d, want %d", what, got, want)
	}
}

func newEnd(t *testing.T, a *Adapter) *end {
	t.Helper()
	e := &end{a: a, k: a.NewConnector()}
	e.cq.Init(a, 64)
	e.mr.Init(a, nil)
	o, err := e.mr.Register(make([]byte, 4096), rightsOfAll)
	if o != provider.OutcomeSuccess {
		t.Fatal(o, err)
	}
	cfg := QPConfig{ReceiveCQ: &e.cq, InitiatorCQ: &e.cq, ReceiveDepth: 8, InitiatorDepth: 8, InlineSize: 32}
	if wrong := a.CheckQP(&cfg); wrong != ArgumentNone {
		t.Fatalf("argument %d", wrong)
	}
	e.qp = a.NewQP(&cfg)
	return e
}

func (e *end) list(n int) []sge {
	return []sge{{e.mr.Newest().Bytes()[:n], uint32(e.mr.Newest().Token())}}
}

// pair is the two sides of a connection of an adapter with itself.
func pair(t *testing.T, a *Adapter) (client, server *end) {
	t.Helper()
	client, server = newEnd(t, a), newEnd(t, a)
	requests := make(chan *provider.Connector, 1)
	l := a.NewListener(func(k *provider.Connector) { requests <- k })
	t.Cleanup(l.Close)
	_, o := l.Bind(netip.AddrPortFrom(a.Addr, 0))
	expect(t, "bind", o, provider.OutcomeSuccess)
	expect(t, "listen", l.Listen(0), provider.OutcomeSuccess)
	at, o := l.LocalAddress()
	expect(t, "address", o, provider.OutcomeSuccess)
	ended := make(chan provider.Outcome, 2)
	tell := func(o provider.Outcome) { ended <- o }
	expect(t, "connect", client.k.Begin(&Attempt{QP: &client.qp, To: at}, func() {}, tell), provider.OutcomeSuccess)
	if err := a.Seek(t.Context(), client.k.Connector, at.Addr()); err != nil {
		t.Fatal(err)
	}
	server.k = a.Arrived(<-requests)
	expect(t, "accept", server.k.Call(func() provider.Outcome {
		return server.k.Accept(&server.qp, provider.ConnectParams{}, tell, nil)
	}), provider.OutcomeSuccess)
	expect(t, "connected", <-ended, provider.OutcomeSuccess)
	expect(t, "complete", client.k.Call(func() provider.Outcome { return client.k.CompleteConnect(tell) }), provider.OutcomeSuccess)
	expect(t, "established", <-ended, provider.OutcomeSuccess)
	expect(t, "established", <-ended, provider.OutcomeSuccess)
	return client, server
}

// result waits for one result.
func (e *end) result(t *testing.T) (r provider.Result) {
	t.Helper()
	var got [1]provider.Result
	for until := time.Now().Add(time.Minute); Results(&e.cq, got[:], func(to, from []provider.Result) { copy(to, from) }) == 0; {
		if time.Now().After(until) {
			t.Fatal("no result")
		}
	}
	return got[0]
}

// The bytes of a Send, from memory or inline, arrive in the memory of the Receive, and results come in order.
func TestPostMovesBytes(t *testing.T) {
	client, server := pair(t, open(t))
	copy(client.mr.Newest().Bytes(), "from memory")
	expect(t, "receive", Receive(&server.qp, 1, server.list(64)), provider.OutcomeSuccess)
	expect(t, "receive", Receive(&server.qp, 2, server.list(64)), provider.OutcomeSuccess)
	expect(t, "send", Post(&client.qp, &provider.Request{Kind: provider.KindSend}, client.list(11)), provider.OutcomeSuccess)
	if r := server.result(t); r.RequestContext != 1 || r.Bytes != 11 || string(server.mr.Newest().Bytes()[:11]) != "from memory" {
		t.Errorf("%+v", r)
	}
	inline := []sge{{Buffer: []byte("in")}, {Buffer: []byte("line")}}
	expect(t, "inline", Post(&client.qp, &provider.Request{Kind: provider.KindSend, Flags: provider.FlagInline}, inline), provider.OutcomeSuccess)
	if r := server.result(t); r.RequestContext != 2 || string(server.mr.Newest().Bytes()[:6]) != "inline" {
		t.Errorf("%+v", r)
	}
}

// A post checks the adapter first, then the state of the queue pair, then the list, and the free space last.
func TestOrderOfPostChecks(t *testing.T) {
	a := open(t)
	e := newEnd(t, a)
	send := provider.Request{Kind: provider.KindSend}
	tooMany := make([]sge, provider.MaxSGE+1)
	expect(t, "idle, list", Post(&e.qp, &send, tooMany), provider.OutcomeConnectionInvalid)
	expect(t, "idle, range of bind", e.qp.Bind(1, e.mr.Newest(), nil, make([]byte, 1), 0), provider.OutcomeConnectionInvalid)
	expect(t, "receive, list", Receive(&e.qp, 1, tooMany), provider.OutcomeDataOverrun)
	client, _ := pair(t, a)
	expect(t, "list", Post(&client.qp, &send, tooMany), provider.OutcomeDataOverrun)
	expect(t, "range of bind", client.qp.Bind(1, client.mr.Newest(), nil, make([]byte, 1), 0), OutcomeOutside)
	inline := provider.Request{Kind: provider.KindSend, Flags: provider.FlagInline}
	expect(t, "inline", Post(&client.qp, &inline, client.list(MaxInline+1)), provider.OutcomeBufferOverflow)
	expect(t, "inline, queue pair's limit", Post(&client.qp, &inline, client.list(33)), provider.OutcomeBufferOverflow)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	expect(t, "closed, receive with a wrong list", Receive(&e.qp, 1, tooMany), provider.OutcomeDeviceRemoved)
	expect(t, "closed, send with a wrong list", Post(&e.qp, &send, tooMany), provider.OutcomeDeviceRemoved)
	expect(t, "closed, resize to nothing", e.cq.Resize(0), provider.OutcomeDeviceRemoved)
	o, _ := e.mr.Register(nil, 1<<20)
	expect(t, "closed, register nothing", o, provider.OutcomeDeviceRemoved)
}

func TestPostDoesNotAllocate(t *testing.T) {
	client, _ := pair(t, open(t))
	client.qp.Flush()
	list := client.list(64)
	write := provider.Request{Kind: provider.KindWrite, Flags: provider.FlagDefer}
	var results [8]provider.Result
	put := func(to, from []provider.Result) { copy(to, from) }
	if n := testing.AllocsPerRun(100, func() {
		expect(t, "write", Post(&client.qp, &write, list), provider.OutcomeSuccess)
		expect(t, "receive", Receive(&client.qp, 1, list), provider.OutcomeSuccess)
		client.qp.Flush()
		Results(&client.cq, results[:], put)
	}); n > 1 { // Flush allocates a closure
		t.Errorf("%v allocations", n)
	}
}

// Registration of a registered region fails because of its state, whatever is wrong with the memory, because the state is checked
// first.
func TestRegisteredRegionIsNotLookedAt(t *testing.T) {
	a := open(t)
	e := newEnd(t, a)
	o, cause := e.mr.Register(protect(t, 0), rightsOfAll)
	if o != provider.OutcomeInvalidState || cause != nil {
		t.Errorf("outcome %d, %v", o, cause)
	}
	var m MR
	m.Init(a, nil)
	if o, cause := m.Register(protect(t, 0), rightsOfAll); o != provider.OutcomeAccessViolation || cause == nil {
		t.Errorf("outcome %d, %v", o, cause)
	}
	for name, c := range map[string]struct {
		buf   []byte
		flags uint32
		want  provider.Outcome
	}{
		"nothing": {nil, 0, OutcomeWrongArgument}, "empty": {[]byte{}, 0, OutcomeEmpty}, "flags": {nil, 16, OutcomeWrongFlags},
	} {
		o, _ := m.Register(c.buf, c.flags)
		expect(t, name, o, c.want)
	}
	o, _ = m.Deregister()
	expect(t, "deregister", o, provider.OutcomeInvalidState)
}

// The shared receive queue of a queue pair must belong to the adapter and be open. The queue pair's own receive depth is ignored
// then.
func TestCheckQP(t *testing.T) {
	a := open(t)
	var cq, other CQ
	cq.Init(a, 1)
	other.Init(&Adapter{armed: map[Notifier]struct{}{}}, 1)
	var srq, closed SRQ
	srq.Init(a, SRQConfig{Depth: 1})
	closed.Init(a, SRQConfig{Depth: 1})
	closed.Close()
	good := QPConfig{ReceiveCQ: &cq, InitiatorCQ: &cq}
	for name, c := range map[string]struct {
		change func(*QPConfig)
		want   Argument
	}{
		"good":                      {func(*QPConfig) {}, ArgumentNone},
		"no queue":                  {func(c *QPConfig) { c.ReceiveCQ = nil }, ArgumentReceiveCQ},
		"another adapter's":         {func(c *QPConfig) { c.InitiatorCQ = &other }, ArgumentInitiatorCQ},
		"depth":                     {func(c *QPConfig) { c.ReceiveDepth = -1 }, ArgumentReceiveDepth},
		"initiator depth":           {func(c *QPConfig) { c.InitiatorDepth = MaxQueueDepth + 1 }, ArgumentInitiatorDepth},
		"entries":                   {func(c *QPConfig) { c.MaxReceiveSGE = provider.MaxSGE + 1 }, ArgumentReceiveSGE},
		"initiator entries":         {func(c *QPConfig) { c.MaxInitiatorSGE = -1 }, ArgumentInitiatorSGE},
		"inline":                    {func(c *QPConfig) { c.InlineSize = MaxInline + 1 }, ArgumentInline},
		"shared":                    {func(c *QPConfig) { c.FromShared, c.Shared, c.ReceiveDepth = true, &srq, -1 }, ArgumentNone},
		"no shared queue":           {func(c *QPConfig) { c.FromShared = true }, ArgumentSharedQueue},
		"shared queue that is over": {func(c *QPConfig) { c.FromShared, c.Shared = true, &closed }, ArgumentSharedQueue},
	} {
		cfg := good
		c.change(&cfg)
		if got := a.CheckQP(&cfg); got != c.want {
			t.Errorf("%s: argument %d, want %d", name, got, c.want)
		}
	}
}

// A wait on a closed object ends at once, and reports what ended.
func TestArmingWhatIsOver(t *testing.T) {
	a := open(t)
	var cq CQ
	var srq SRQ
	cq.Init(a, 1)
	srq.Init(a, SRQConfig{Depth: 1, Threshold: 1}) // fewer than one receive is posted, so the notification comes at once
	var told []provider.Outcome
	tell := func(o provider.Outcome) { told = append(told, o) }
	cq.Close()
	srq.Close()
	cq.Arm(provider.NotifyAny, tell)
	srq.Arm(tell)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	cq.Arm(provider.NotifyAny, tell)
	srq.Arm(tell)
	want := []provider.Outcome{provider.OutcomeCanceled, provider.OutcomeCanceled, provider.OutcomeDeviceRemoved, provider.OutcomeDeviceRemoved}
	if !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	expect(t, "receive", ReceiveShared(&srq, 1, []sge{}), provider.OutcomeDeviceRemoved)
}

// The arguments of Connect are checked in the specification's order. A request cannot begin on an adapter that was closed
// meanwhile.
func TestOrderOfConnectChecks(t *testing.T) {
	a := open(t)
	e := newEnd(t, a)
	elsewhere, six := netip.MustParseAddrPort("127.0.3.9:1"), netip.MustParseAddrPort("[::1]:1")
	fin := func(provider.Outcome) { t.Error("an attempt that did not begin ended") }
	long := provider.ConnectParams{Private: make([]byte, provider.MaxPrivateData+1)}
	for name, c := range map[string]struct {
		t    Attempt
		want provider.Outcome
	}{
		"queue pair":      {Attempt{}, OutcomeWrongQueuePair},
		"no address":      {Attempt{QP: &e.qp}, OutcomeNoAddress},
		"no single host":  {Attempt{QP: &e.qp, To: netip.MustParseAddrPort("[ff02::1]:1")}, provider.OutcomeBadNetworkName},
		"no port":         {Attempt{QP: &e.qp, To: netip.AddrPortFrom(a.Addr, 0)}, provider.OutcomeBadNetworkName},
		"family":          {Attempt{QP: &e.qp, To: six}, OutcomeWrongFamily},
		"not its address": {Attempt{QP: &e.qp, To: elsewhere, From: &elsewhere, Params: long}, OutcomeWrongAddress},
		"private data":    {Attempt{QP: &e.qp, To: elsewhere, Params: long}, provider.OutcomeInvalidBufferSize},
	} {
		expect(t, name, e.k.Begin(&c.t, func() {}, fin), c.want)
	}
	_, o := e.k.Bind(elsewhere)
	expect(t, "bind", o, OutcomeWrongAddress)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	expect(t, "closed", e.k.Begin(&Attempt{}, func() {}, fin), provider.OutcomeDeviceRemoved)
	began := false
	expect(t, "closed, request", e.k.Call(func() provider.Outcome { began = true; return provider.OutcomeSuccess }), provider.OutcomeDeviceRemoved)
	if began {
		t.Error("it began all the same")
	}
}

// A request to an unknown port ends. A port of another listener is refused, and the error names the listener. The device stays open
// while a search for a peer uses it, also for an attempt that has ended.
func TestCloseWaitsForSearches(t *testing.T) {
	a := open(t)
	e := newEnd(t, a)
	begun, release := make(chan struct{}), make(chan struct{})
	a.reach = func(context.Context, netip.Addr) error {
		close(begun)
		<-release
		return nil
	}
	at := netip.AddrPortFrom(a.Addr, 9)
	search, stop := context.WithCancel(t.Context())
	ended := make(chan provider.Outcome, 1)
	expect(t, "connect", e.k.Begin(&Attempt{QP: &e.qp, To: at}, stop, func(o provider.Outcome) { ended <- o }), provider.OutcomeSuccess)
	sought := make(chan error, 1)
	go func() { sought <- a.Seek(search, e.k.Connector, at.Addr()) }()
	<-begun
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	expect(t, "attempt", <-ended, provider.OutcomeDeviceRemoved)
	<-search.Done()
	if err := a.Device.Resolve(t.Context(), a.Addr); err != nil {
		t.Errorf("the device cannot resolve a peer during another resolution: %v", err)
	}
	select {
	case <-closed:
		t.Error("closed during the resolution of a peer")
	default:
	}
	close(release)
	if err := errors.Join(<-sought, <-closed); err != nil {
		t.Error(err)
	}
	if err := a.Seek(t.Context(), e.k.Connector, at.Addr()); err != nil { // a search that began before the close needs no device
		t.Error(err)
	}
}

func TestBindSaysWhoHasThePort(t *testing.T) {
	a := open(t)
	one, two := a.NewListener(nil), a.NewListener(nil)
	defer one.Close()
	defer two.Close()
	at := netip.AddrPortFrom(a.Addr, 7777)
	_, o := one.Bind(at)
	expect(t, "bind", o, provider.OutcomeSuccess)
	use, o := two.Bind(at)
	expect(t, "bind again", o, provider.OutcomeSharingViolation)
	if use.Listening || use.Users != 1 {
		t.Errorf("%+v", use)
	}
	expect(t, "listen", one.Listen(0), provider.OutcomeSuccess)
	if use, _ = two.Bind(at); !use.Listening {
		t.Errorf("%+v", use)
	}
	_, o = two.Bind(netip.MustParseAddrPort("127.0.3.9:1"))
	expect(t, "elsewhere", o, OutcomeWrongAddress)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := a.NewConnector()
	defer k.Close()
	if err := a.Seek(ctx, k.Connector, a.Addr); err != nil {
		t.Error(err)
	}
}

func TestNotOpened(t *testing.T) {
	for cause, want := range map[error]provider.Outcome{
		&host.AddressError{}: OutcomeWrongAddress, syscall.ENOMEM: OutcomeNoMemory, syscall.ENOBUFS: OutcomeNoMemory,
		syscall.EMFILE: provider.OutcomeInsufficientResources, syscall.ENFILE: provider.OutcomeInsufficientResources, syscall.EPERM: OutcomeNotReady,
	} {
		expect(t, cause.Error(), notOpened(fmt.Errorf("open: %w", cause)), want)
	}
	for _, addr := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.MustParseAddr("224.0.0.1")} {
		_, o, _ := Open(plan.Config{Address: addr, Datapath: plan.UDP}, provider.Config{})
		expect(t, addr.String(), o, OutcomeWrongAddress)
	}
}

func TestUnreachable(t *testing.T) {
	for cause, want := range map[error]provider.Outcome{
		host.ErrNoRoute: provider.OutcomeNetworkUnreachable, host.ErrNotOneHost: provider.OutcomeBadNetworkName,
		syscall.EMFILE: provider.OutcomeInsufficientResources, syscall.ENFILE: provider.OutcomeInsufficientResources,
		syscall.ENOBUFS: provider.OutcomeInsufficientResources, syscall.ENOMEM: provider.OutcomeInsufficientResources,
		host.ErrNoNeighbour: provider.OutcomeHostUnreachable, syscall.EADDRINUSE: provider.OutcomeHostUnreachable,
	} {
		expect(t, cause.Error(), unreachable(fmt.Errorf("find a way: %w", cause)), want)
	}
}

// Requests use mappings by the privileged token while they are mapped. The zero token of an adapter is invalid.
func TestMappings(t *testing.T) {
	a := open(t)
	buf := make([]byte, 4096)
	if s := a.entry(buf, 0); s.Token != 0 {
		t.Errorf("%+v", s)
	}
	if err := a.Mappings.Reserve(a.Memory); err != nil {
		t.Fatal(err)
	}
	r, err := a.Memory.Register(buf, provider.RightLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	a.Mappings.Add(r)
	if s := a.entry(buf[8:16], a.Mappings.Token()); s.Token != r.Token() || s.Addr != r.Base()+8 || s.Len != 8 {
		t.Errorf("%+v", s)
	}
	if a.Mappings.At(r.Base()+4095) != r || a.Mappings.At(r.Base()+4096) != nil || a.Mappings.Count() != 1 {
		t.Error("a mapping is not where it is")
	}
	if !a.Mappings.Remove(r) || a.Mappings.Remove(r) {
		t.Error("it was removed twice, or not at all")
	}
	if s := a.entry(buf, a.Mappings.Token()); s.Token != 0 {
		t.Errorf("%+v", s)
	}
}
