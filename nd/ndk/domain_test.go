package ndk

import "testing"

// foreign lists accesses to memory of another protection domain than that of the connected queue pairs. near is the end that the
// test posts on, and far is its peer. token belongs to region, whose domain is another one of the same adapter.
var foreign = map[string]struct {
	local bool // the region is near's, otherwise the peer's
	post  func(near, far *end, region *MR, token Token) Status
}{
	"peer's write": {post: func(near, _ *end, region *MR, token Token) Status {
		return near.qp.Write(1, []SGE{near.mr.SGE(0, 64)}, region.Address(), token, 0)
	}},
	"peer's read": {post: func(near, _ *end, region *MR, token Token) Status {
		return near.qp.Read(1, []SGE{near.mr.SGE(0, 64)}, region.Address(), token, 0)
	}},
	"write": {local: true, post: func(near, far *end, region *MR, token Token) Status {
		return near.qp.Write(1, []SGE{{region.Bytes()[:64], token}}, far.mr.Address(), far.mr.RemoteToken(), 0)
	}},
	"send": {local: true, post: func(near, far *end, region *MR, token Token) Status {
		if s := far.qp.Receive(2, []SGE{far.mr.SGE(0, 64)}); s != StatusSuccess {
			return s
		}
		return near.qp.Send(1, []SGE{{region.Bytes()[:64], token}}, 0)
	}},
	"read": {local: true, post: func(near, far *end, region *MR, token Token) Status {
		return near.qp.Read(1, []SGE{{region.Bytes()[:64], token}}, far.mr.Address(), far.mr.RemoteToken(), 0)
	}},
	"receive": {local: true, post: func(near, far *end, region *MR, token Token) Status {
		if s := near.qp.Receive(1, []SGE{{region.Bytes()[:64], token}}); s != StatusSuccess {
			return s
		}
		return far.qp.Send(2, []SGE{far.mr.SGE(0, 64)}, 0)
	}},
}

// A queue pair's requests and its peer cannot access memory of another protection domain. The result is that of a wrong token.
func TestDomainsKeepOthersOut(t *testing.T) {
	for name, way := range foreign {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			try := func(wrong Token) Status {
				near, far := r.connected(t)
				at := r.b
				if way.local {
					at = r.a
				}
				other := newEnd(t, at, 4096)
				fillWith(near.mr, 42)
				fillWith(far.mr, 42)
				want(t, "post", way.post(near, far, other.mr, other.mr.LocalToken()^wrong), StatusSuccess)
				s := near.result(t).Status
				at.sync()
				for i, b := range other.mr.Bytes() {
					if b != 0 {
						t.Fatalf("byte %d of the other domain's region is %d", i, b)
					}
				}
				return s
			}
			refused := StatusAccessViolation
			if name == "peer's read" {
				refused = StatusRemoteResources
			}
			want(t, "wrong token", try(1), refused)
			want(t, "token of another domain", try(0), refused)
			near, far := r.connected(t)
			region := far.mr
			if way.local {
				region = near.mr
			}
			want(t, "post", way.post(near, far, region, region.LocalToken()), StatusSuccess)
			want(t, "token of the own domain", near.result(t).Status, StatusSuccess)
		})
	}
}

func fillWith(m *MR, b byte) {
	for i := range m.Bytes() {
		m.Bytes()[i] = b
	}
}

// The peer cannot distinguish a token of another domain from an unknown token.
func TestDomainIsNoWordOfTheAnswer(t *testing.T) {
	r := newRig(t)
	drops := func(region func(far *end) (addr uint64, token Token)) map[string]uint64 {
		stats := r.b.verbs.Stats()
		before := stats.DropsByName()
		near, far := r.connected(t)
		addr, token := region(far)
		want(t, "post", near.qp.Write(1, []SGE{near.mr.SGE(0, 64)}, addr, token, 0), StatusSuccess)
		want(t, "write", near.result(t).Status, StatusAccessViolation)
		stats = r.b.verbs.Stats()
		after := stats.DropsByName()
		for name, n := range before {
			if after[name] -= n; after[name] == 0 {
				delete(after, name)
			}
		}
		delete(after, "state") // the request was repeated before its sender received the answer
		return after
	}
	none := drops(func(far *end) (uint64, Token) { return far.mr.Address(), far.mr.RemoteToken() ^ 1 })
	others := drops(func(far *end) (uint64, Token) {
		other := newEnd(t, r.b, 4096)
		return other.mr.Address(), other.mr.RemoteToken()
	})
	if len(none) != 1 || none["token"] != 1 || len(others) != 1 || others["token"] != 1 {
		t.Errorf("drops %v for a token that names nothing, %v for one of another domain; want one for the token, of both", none, others)
	}
}

// Requests may not use objects of another domain of their adapter either.
func TestObjectsOfAnotherDomain(t *testing.T) {
	r := newRig(t)
	e, _ := r.connected(t)
	other := newEnd(t, r.a, 64)
	window := func(e *end) *MW {
		w, s := e.pd.CreateMW(nil, nil)
		t.Cleanup(func() { closed(t, w.Close) })
		return created(t, w, s)
	}
	mine, theirs, fast := window(e), window(other), other.fast(t, true)
	lam := mapped(t, r.a, make([]byte, 64))
	for name, s := range map[string]Status{
		"bind its region":      e.qp.Bind(1, other.mr, mine, other.mr.Bytes(), 0),
		"bind its window":      e.qp.Bind(1, e.mr, theirs, e.mr.Bytes(), 0),
		"invalidate":           e.qp.Invalidate(1, theirs, 0),
		"invalidate a region":  e.qp.Invalidate(1, fast, 0),
		"register its region":  fastPost(e, fast, lam.Pages, 8, 0),
		"shared receive queue": made[*QP](t)(e.pd.CreateQPWithSRQ(other.srq, QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq}, nil, nil)),
	} {
		want(t, name, s, StatusInvalidParameter)
	}
}

// A receive of a shared queue uses the domain of the queue, which is also that of the queue pair that takes the receive.
func TestDomainOfASharedReceive(t *testing.T) {
	r := newRig(t)
	other, shared := newEnd(t, r.b, 4096), newEnd(t, r.b, 64)
	qp, s := shared.pd.CreateQPWithSRQ(shared.srq, QPConfig{ReceiveCQ: shared.cq, InitiatorCQ: shared.cq, ID: 77}, nil, nil)
	shared.qp, qp = created(t, qp, s), shared.qp
	t.Cleanup(func() { closed(t, qp.Close) })
	want(t, "receive", shared.srq.Receive(3, []SGE{other.mr.SGE(0, 64)}), StatusSuccess)
	_, at, requests := listens(t, r.b)
	client := newEnd(t, r.a, 64)
	t.Cleanup(func() { // before the listener closes, because the listener waits for it
		if shared.ctr != nil {
			closed(t, shared.ctr.Close)
		}
	})
	connect := client.dial(t, at)
	shared.ctr = receive(t, "connect event", requests)
	accept := shared.accept(t)
	want(t, "connect", connect.finish(t), StatusSuccess)
	want(t, "complete", client.complete(t).finish(t), StatusSuccess)
	want(t, "accept", accept.finish(t), StatusSuccess)
	fillWith(client.mr, 42)
	want(t, "send", client.qp.Send(1, []SGE{client.mr.SGE(0, 64)}, 0), StatusSuccess)
	shared.wantResult(t, 3, OperationReceive, StatusAccessViolation)
	if other.mr.Bytes()[0] != 0 {
		t.Error("a message arrived in memory of another domain")
	}
}
