package ndk

import "testing"

// A post that is refused still sends the requests that were deferred before it, because no other post may follow.
func TestRefusedPostMovesDeferredRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, _ := r.connected(t)
	entries := make([]SGE, 17)
	for i := range entries {
		entries[i] = client.mr.SGE(0, 8)
	}
	for _, c := range []struct {
		name   string
		before int // deferred requests
		post   func() Status
		want   Status
	}{
		{"unknown flags", 1, func() Status { return client.qp.Write(99, nil, 0, 0, 1<<20) }, StatusInvalidParameter},
		{"too many entries", 1, func() Status { return client.qp.Send(99, entries, 0) }, StatusDataOverrun},
		{"too many inline bytes", 1, func() Status { return client.qp.Send(99, []SGE{client.mr.SGE(0, 1000)}, OpInline) }, StatusBufferOverflow},
		{"full queue", 16, func() Status { return client.qp.Write(99, nil, 0, 0, OpDefer) }, StatusNoMoreEntries},
	} {
		for i := range c.before {
			want(t, "deferred", client.qp.Write(uint64(i), nil, 0, 0, OpDefer), StatusSuccess)
		}
		want(t, c.name, c.post(), c.want)
		for i := range c.before {
			client.wantResult(t, uint64(i), OperationWrite, StatusSuccess)
		}
	}
}
