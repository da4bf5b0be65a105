package provider

import (
	"math/rand/v2"
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/access"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/space"
)

// frameSource is a link with frames that accepts packets. It serves objects that write packets without an engine.
type frameSource struct{}

func (frameSource) Frames(dst []Frag) int {
	for i := range dst {
		dst[i] = Frag{Data: make([]byte, FrameSize), ID: uint64(i)}
	}
	return len(dst)
}

func (frameSource) Transmit([]TxPacket) {}

func (frameSource) Forget(Path) {}

// someAccess is memory with one region for everybody, with its token and the address of its first byte.
func someAccess(t *testing.T, rights Rights) (mem *access.Memory, token Token, base uint64) {
	t.Helper()
	table := NewMemory(rand.New(rand.NewPCG(1, 2)))
	r, err := table.Register(make([]byte, 1<<16), rights)
	if err != nil {
		t.Fatal(err)
	}
	return &access.Memory{Table: table}, r.Token(), r.Base()
}

// posted is an initiator queue with requests of 64 bytes each.
func posted(t *testing.T, token Token, base uint64, reqs ...Request) *initiatorQueue {
	t.Helper()
	q := newInitiatorQueue(8, 1, 0)
	for i := range reqs {
		reqs[i].Length = 64
		if o := q.post(&reqs[i], []SGE{{Addr: base, Len: 64, Token: token}}); o != OutcomeSuccess {
			t.Fatal(o)
		}
	}
	return &q
}

// A query why a request is blocked changes nothing: two queries return the same.
func TestRequesterHolds(t *testing.T) {
	const window = 1 << 20
	for name, test := range map[string]struct {
		req    Request
		change func(r *requester)
		window int
		want   hold
	}{
		"write":            {req: Request{Kind: KindWrite}, window: window, want: holdNone},
		"send with credit": {req: Request{Kind: KindSend}, change: func(r *requester) { r.numbers.sendLimit = 1 }, window: window, want: holdNone},
		"send without":     {req: Request{Kind: KindSend}, window: window, want: holdReceive},
		"read":             {req: Request{Kind: KindRead}, window: window, want: holdNone},
		"reads enough": {
			req: Request{Kind: KindRead}, window: window, want: holdReads,
			change: func(r *requester) { r.reads.Add(5, 10); r.reads.Add(6, 10) },
		},
		"window of reads": {req: Request{Kind: KindRead}, window: 10, want: holdWindow, change: func(r *requester) { r.reads.Add(5, 10) }},
		"fence": {
			req: Request{Kind: KindWrite, Flags: FlagReadFence}, window: window, want: holdFence,
			change: func(r *requester) { r.reads.Add(5, 10) },
		},
	} {
		r := requester{numbers: &requestNumbers{ord: 2}}
		if test.change != nil {
			test.change(&r)
		}
		numbers, before := *r.numbers, r
		q := posted(t, 0, 0, test.req)
		for range 2 {
			if got := r.hold(q, q.at(), test.window); got != test.want {
				t.Errorf("%s: %d, want %d", name, got, test.want)
			}
		}
		if *r.numbers != numbers || r != before {
			t.Errorf("%s: a question wrote", name)
		}
		if got := r.hold(q, space.At(1, 0), test.window); got != holdNothing {
			t.Errorf("%s: behind the last request: %d", name, got)
		}
	}
}

// Requests get their message numbers when they start. As many start as fit and as limits allow, and their READs are outstanding
// from then on.
func TestRequesterPacks(t *testing.T) {
	mem, token, base := someAccess(t, RightLocalWrite)
	out := packet.NewOut(frameSource{})
	r := requester{numbers: &requestNumbers{ord: 1, sendLimit: 1}}
	q := posted(t, token, base, Request{Kind: KindSend}, Request{Kind: KindRead}, Request{Kind: KindWrite}, Request{Kind: KindSend})
	out.Begin(8972)
	to, ok := r.pack(&out, q, mem, q.at(), space.At(4, 0), true, 1<<20)
	if !ok || to != space.At(3, 0) {
		t.Fatalf("up to %v, %v", to, ok) // the second SEND has no receive
	}
	if r.numbers.nextMessage != 3 || r.numbers.nextSend != 1 || r.numbers.nextRead != 1 || r.reads.Waiting() != 1 || r.reads.Oldest() != 1 {
		t.Errorf("%+v, %+v", *r.numbers, r.reads)
	}
	if _, ok := r.reads.Find(0); !ok {
		t.Error("the READ is not outstanding")
	}
	out.Abandon()

	// Packed again, the requests get the same numbers. RNR holds back the requests beyond the limit.
	out.Begin(8972)
	if to, ok := r.pack(&out, q, mem, space.At(0, 0), space.At(3, 0), false, 1<<20); !ok || to != space.At(3, 0) || r.numbers.nextMessage != 3 {
		t.Errorf("again up to %v, %v, %+v", to, ok, *r.numbers)
	}
	out.Abandon()
	r.hasPaused, r.numbers.sendLimit = true, 0
	out.Begin(8972)
	if to, ok := r.pack(&out, q, mem, space.At(0, 0), space.At(3, 0), false, 1<<20); !ok || to != space.At(0, 0) {
		t.Errorf("beyond the limit up to %v, %v", to, ok)
	}
	out.Abandon()

	// A READ into memory that is not writable fails, and ends the packet.
	mem, token, base = someAccess(t, 0)
	q = posted(t, token, base, Request{Kind: KindWrite}, Request{Kind: KindRead})
	out.Begin(8972)
	frames := out.Frames()
	r = requester{numbers: &requestNumbers{ord: 1}}
	if to, ok := r.pack(&out, q, mem, q.at(), space.At(2, 0), true, 1<<20); ok || to != space.At(1, 0) || out.Frames() != frames+1 {
		t.Errorf("up to %v, %v, %d frames", to, ok, out.Frames()-frames)
	}
}

// An offset that the peer names is found by its message number, unless that message was never sent.
func TestRequesterFindsPlaces(t *testing.T) {
	mem, token, base := someAccess(t, RightLocalWrite)
	out := packet.NewOut(frameSource{})
	r := requester{numbers: &requestNumbers{nextMessage: 70000}}
	q := posted(t, token, base, Request{Kind: KindWrite}, Request{Kind: KindWrite})
	out.Begin(8972)
	to, _ := r.pack(&out, q, mem, q.at(), space.At(2, 0), true, 1<<20)
	var sp space.Send
	sp.Sent(to)
	for _, test := range []struct {
		message uint32
		offset  uint32
		at      space.Place
		ok      bool
	}{
		{70000, 0, space.At(0, 0), true},
		{70001, 32, space.At(1, 32), true},
		{70002, 0, to, true},
		{70002, 1, to, false},
		{70003, 0, 0, false},
		{69999, 0, sp.Una(), true},
	} {
		if at, ok := r.place(q, &sp, uint16(test.message), test.offset); ok != test.ok || at != test.at {
			t.Errorf("message %d from %d: %v %v, want %v %v", test.message, test.offset, at, ok, test.at, test.ok)
		}
	}
	if at, ok := r.place(nil, &sp, 70001-1<<16, 0); !ok || at != sp.Next() {
		t.Errorf("without a queue: %v %v", at, ok)
	}
}
