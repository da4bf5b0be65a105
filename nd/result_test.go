package nd

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// endpoints connects two endpoints. The first one dials.
func (r *rig) endpoints(t *testing.T, rights MRFlags) (client, server *Endpoint) {
	t.Helper()
	return r.endpointsOf(t, EndpointConfig{Rights: rights, MemoryBytes: 4096})
}

// endpointsOf connects two endpoints of one configuration. The first one dials.
func (r *rig) endpointsOf(t *testing.T, cfg EndpointConfig) (client, server *Endpoint) {
	t.Helper()
	cfg.Adapter = r.b
	l, err := Listen(netip.AddrPortFrom(r.addr[1], 0), cfg)
	must(t, err)
	at, err := l.Address()
	must(t, err)
	accepted := start(func() (err error) { server, err = l.Accept(t.Context()); return err })
	cfg.Adapter = r.a
	client, err = Dial(t.Context(), at, cfg)
	must(t, err)
	must(t, finish(t, "accept", accepted))
	t.Cleanup(func() { must(t, errors.Join(client.Close(), server.Close(), l.Close())) })
	return client, server
}

// echo sends back the messages that it receives until the peer has disconnected.
func echo(ctx context.Context, e *Endpoint) error {
	for {
		err := e.QueuePair.Receive(1, []SGE{e.Memory.SGE(0, 4096)})
		if err != nil {
			return err
		}
		got, err := e.Result(ctx)
		if err != nil {
			return errors.Join(err, e.Close())
		}
		if err := e.QueuePair.Send(2, []SGE{e.Memory.SGE(0, int(got.Bytes))}, OpSilentSuccess); err != nil {
			return err
		}
	}
}

// A server that only calls Result in a loop learns that its peer disconnected, whether it sleeps or not. If it then closes its
// endpoint, the connection ends gracefully for both, and the peer's Disconnect does not time out.
func TestResultTellsOfDisconnect(t *testing.T) {
	t.Parallel()
	client, server := commonRig(t).endpoints(t, 0)
	served := start(func() error { return echo(t.Context(), server) })
	for range 3 {
		must(t, client.QueuePair.Receive(1, []SGE{client.Memory.SGE(0, 64)}))
		must(t, client.QueuePair.Send(2, []SGE{client.Memory.SGE(64, 5)}, OpSilentSuccess))
		got, err := client.Result(t.Context())
		if err != nil || got.Bytes != 5 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	must(t, client.Disconnect(t.Context())) // ErrIOTimeout if the server did not close, ErrConnectionAborted if it aborted the connection
	err := finish(t, "the echo server", served)
	wantStatus(t, "result", err, ErrCanceled)
	if !errors.Is(err, CausePeerDisconnected) {
		t.Errorf("the server got %v", err)
	}
	_, err = server.Result(t.Context()) // the server's receive, which Close canceled
	wantCause(t, "the receive that was left", err, ErrCanceled, CausePeerDisconnected)
}

// Messages that the peer sent before it disconnected are reported before the end, also if no call was made meanwhile.
func TestResultsComeBeforeTheEnd(t *testing.T) {
	t.Parallel()
	client, server := commonRig(t).endpoints(t, 0)
	must(t, server.QueuePair.Receive(7, []SGE{server.Memory.SGE(0, 64)}))
	must(t, client.QueuePair.Send(1, []SGE{client.Memory.SGE(0, 8)}, 0))
	_, err := client.Result(t.Context())
	must(t, err)
	left := start(func() error { return client.Disconnect(t.Context()) })
	waitState(t, server.Connector, provider.CtrPeerGone)
	got, err := server.Result(t.Context())
	if err != nil || got.RequestID != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	for range 2 { // every further call returns the same
		_, err = server.Result(t.Context())
		wantCause(t, "after the last result", err, ErrCanceled, CausePeerDisconnected)
	}
	must(t, server.Disconnect(t.Context()))
	must(t, finish(t, "disconnect", left))
}

// A peer may leave as soon as it has a message, so that its DREQ arrives together with the acknowledgement of the message. The
// result of the Send is reported before the end, although the poll that processes both detects the end first.
func TestResultOfTheTurnThatEnds(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	other, err := r.a.CreateCompletionQueue(1)
	must(t, err)
	defer func() { must(t, other.Close()) }()
	ctx, stop := context.WithCancel(t.Context())
	slept := start(func() error { return other.Notify(ctx, NotifyAny) }) // another call runs the polls
	defer func() { stop(); wantStatus(t, "sleeper", finish(t, "sleeper", slept), ErrCanceled) }()
	for range 200 {
		client, server := r.endpoints(t, 0)
		must(t, server.QueuePair.Receive(7, []SGE{server.Memory.SGE(0, 64)}))
		left := start(func() error {
			if _, err := server.Result(t.Context()); err != nil {
				return err
			}
			return server.Disconnect(t.Context())
		})
		must(t, client.QueuePair.Send(1, []SGE{client.Memory.SGE(0, 8)}, 0))
		if got, err := client.Result(t.Context()); err != nil || got.RequestID != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		must(t, client.Disconnect(t.Context()))
		must(t, finish(t, "disconnect", left))
	}
}

func wantCause(t *testing.T, what string, err error, status Status, why Cause) {
	t.Helper()
	wantStatus(t, what, err, status)
	if !errors.Is(err, why) {
		t.Errorf("%s: %v, want because %v", what, err, why)
	}
}

// Each way in which a connection ends has its own cause on both sides, also for calls that wait for a result without outstanding
// requests.
func TestCauses(t *testing.T) {
	t.Parallel()
	foreign := make([]byte, 64)
	write := func(e *Endpoint, sge SGE, token Token) error {
		return e.QueuePair.Write(1, []SGE{sge}, e.Peer.Address, token, 0)
	}
	for _, c := range []struct {
		name        string
		act         func(t *testing.T, client, server *Endpoint) error // ends the connection, with request 1 of the client
		status      Status                                             // the status of that request
		here, there Cause
	}{
		{
			"the peer closes", func(t *testing.T, client, server *Endpoint) error {
				return errors.Join(client.QueuePair.Receive(1, nil), server.Close())
			}, ErrCanceled, CausePeerGone, CauseOwn,
		},
		{"no receive", func(t *testing.T, client, server *Endpoint) error {
			return client.QueuePair.Send(1, nil, 0)
		}, ErrIOTimeout, CauseNoReceive, CausePeerFailed},
		{"a token that is wrong there", func(t *testing.T, client, server *Endpoint) error {
			return write(client, client.Memory.SGE(0, 8), client.Peer.Token^1)
		}, ErrAccessViolation, CauseRefusedThere, CauseRefusedHere},
		{"a message too long for the receive", func(t *testing.T, client, server *Endpoint) error {
			return errors.Join(server.QueuePair.Receive(1, []SGE{server.Memory.SGE(0, 4)}), client.QueuePair.Send(1, []SGE{client.Memory.SGE(0, 8)}, 0))
		}, ErrRemoteError, CauseRefusedThere, CauseRefusedHere},
		{"a local slice of nobody's", func(t *testing.T, client, server *Endpoint) error {
			return write(client, SGE{foreign, client.Memory.LocalToken()}, client.Peer.Token)
		}, ErrAccessViolation, CauseLocalMemory, CausePeerFailed},
		{"a local slice that may not be written", func(t *testing.T, client, server *Endpoint) error {
			mr, err := client.Adapter.AllocateMemory(64, 0)
			must(t, err)
			t.Cleanup(func() { must(t, mr.Close()) })
			return client.QueuePair.Read(1, []SGE{mr.SGE(0, 8)}, client.Peer.Address, client.Peer.Token, 0)
		}, ErrAccessViolation, CauseLocalRight, CausePeerFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := commonRig(t).endpoints(t, MRAllowRemoteRead|MRAllowRemoteWrite)
			waits := start(func() error { _, err := server.Result(t.Context()); return err })
			must(t, c.act(t, client, server))
			r, err := client.Result(t.Context())
			wantCause(t, "the client", err, c.status, c.here)
			if r.RequestID != 1 || !strings.Contains(err.Error(), r.Type.String()) {
				t.Errorf("%+v: %v", r, err)
			}
			if err := finish(t, "the server's result", waits); !errors.Is(err, c.there) {
				t.Errorf("the server got %v, want the cause %v", err, c.there)
			}
		})
	}
}

// A request that this side cancels has another status than one that the peer ended.
func TestOwnCancel(t *testing.T) {
	t.Parallel()
	client, server := commonRig(t).endpoints(t, 0)
	must(t, client.QueuePair.Receive(1, nil))
	client.QueuePair.Flush()
	_, err := client.Result(t.Context())
	wantCause(t, "flushed", err, ErrCanceled, CauseOwn)
	if why := client.Connector.Cause(); why != CauseNone {
		t.Errorf("the connection ended because %v", why)
	}
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	_, err = server.Result(given)
	wantStatus(t, "given up", err, ErrCanceled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// Every cause has a text, and an undefined cause prints as undefined.
func TestCauseText(t *testing.T) {
	seen := map[string]bool{}
	for c := range Cause(len(causeText)) {
		if text := c.Error(); text == "" || seen[text] {
			t.Errorf("cause %d is %q", uint8(c), text)
		}
		seen[c.Error()] = true
	}
	if len(causeText) != int(CauseOwn)+1 || (CauseOwn+1).Error() != "unknown cause 15" {
		t.Errorf("%d texts, %v", len(causeText), CauseOwn+1)
	}
}
