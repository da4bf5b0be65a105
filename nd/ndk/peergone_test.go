package ndk

import "testing"

// The peer's DREQ leaves the queue pair ready and flushes nothing (ND specification 8.2 and 14.2, Q10). Requests may still be posted
// (Q07). A request that needs no receive of the peer completes while the peer's connection exists. All other requests end with the local
// disconnect.
func TestPostAfterThePeerDisconnected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, p := range postings {
		t.Run(p.method, func(t *testing.T) {
			client, server := r.connected(t)
			want(t, "receive before", client.qp.Receive(7, nil), StatusSuccess)
			ended := server.disconnect(t)
			receive(t, "disconnect event", client.gone)
			if n := client.cq.GetResults(make([]Result, 4)); n != 0 {
				t.Errorf("the notice made %d results", n)
			}
			want(t, "post", p.post(client.qp, nil, 0), StatusSuccess)
			canceled := 2
			if p.method == "NDK_FN_READ" || p.method == "NDK_FN_WRITE" {
				want(t, p.method, client.result(t).Status, StatusSuccess)
				canceled = 1
			}
			want(t, "disconnect", client.disconnect(t).finish(t), StatusSuccess)
			want(t, "the peer's disconnect", ended.finish(t), StatusSuccess)
			var res [4]Result
			if n := client.cq.GetResults(res[:]); n != canceled {
				t.Fatalf("%d results, want %d", n, canceled)
			}
			for i := range canceled {
				want(t, "result", res[i].Status, StatusCancelled)
			}
			// Q13: the queue pair is closed.
			s := p.post(client.qp, nil, 0)
			if p.method == "NDK_FN_RECEIVE" {
				want(t, "post", s, StatusSuccess)
				client.wantResult(t, 1, OperationReceive, StatusCancelled)
			} else {
				want(t, "post", s, StatusConnectionInvalid)
			}
		})
	}
}

// If a message needs a receive that the peer's disconnect has canceled, it is canceled too, and the connection ends. The peer
// cannot receive it any more and has done nothing wrong.
func TestSendForAReceiveThatThePeersDisconnectCanceled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, server := r.connected(t)
	want(t, "receive", server.qp.Receive(1, nil), StatusSuccess)
	r.b.sync() // the peer's receive was announced
	want(t, "write", client.qp.Write(1, nil, 0, 0, 0), StatusSuccess)
	client.wantResult(t, 1, OperationWrite, StatusSuccess)
	ended := server.disconnect(t)
	receive(t, "disconnect event", client.gone)
	server.wantResult(t, 1, OperationReceive, StatusCancelled)
	want(t, "send", client.qp.Send(2, nil, 0), StatusSuccess)
	client.wantResult(t, 2, OperationSend, StatusCancelled)
	want(t, "disconnect", client.disconnect(t).finish(t), StatusConnectionInvalid)
	want(t, "the peer's disconnect", ended.finish(t), StatusConnectionAborted) // C63
}
