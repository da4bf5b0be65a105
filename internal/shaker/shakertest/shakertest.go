// Package shakertest has TLS handshakes for tests: of any size, with any delay and with any end, and without a clock and randomness of
// their own. Their keys are as good as their seed.
package shakertest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/wire"
)

// Plan says how the handshakes of a Side go.
type Plan struct {
	Seed  uint64 // of the keys; both ends need the same
	Suite uint16 // of the keys, by its number in TLS; default AES-128-GCM
	// Hello and Rest are how many bytes a side sends in its first message, ClientHello or ServerHello, and behind it. They are at least
	// what the messages need.
	Hello, Rest int
	// Refuse makes the side fail with this alert when it has verified the peer; zero for no failure.
	Refuse uint8
	// Silent makes the side never answer.
	Silent bool
	// Params, if set, changes the transport parameters that the side sends.
	Params func([]byte) []byte
}

// Side makes the handshakes of connectors or of listeners.
type Side struct {
	Client bool
	// Plan returns the plan of the next handshake.
	Plan func() Plan
	// Later runs a function soon: Begin and Give return first in a test that wants so. Nil runs it at once.
	Later func(func())
	// Busy, if set, says whether a handshake takes no bytes now.
	Busy func() bool

	mu     sync.Mutex
	begun  int
	closed int
}

// Fixed returns a Side with one plan.
func Fixed(client bool, p Plan) *Side {
	return &Side{Client: client, Plan: func() Plan { return p }}
}

// Counts returns how many handshakes were begun, and how many of them were closed.
func (s *Side) Counts() (begun, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun, s.closed
}

// State is the state of a handshake that is done: the endpoints that it was begun with.
type State struct{ Local, Remote wire.Endpoint }

// ErrRefused is why a handshake fails by Plan.Refuse.
var ErrRefused = errors.New("shakertest: the plan refuses the peer")

// handshake is one side of a handshake. A message is its length (4), its contents and padding.
type handshake struct {
	side    *Side
	plan    Plan
	state   State
	params  []byte
	deliver func(*shaker.Step)

	mu     sync.Mutex
	in     [2][]byte // bytes of each level
	hello  []byte    // the first message of this side
	next   [2]aead.Secret
	phase  int
	closed bool
}

// Begin implements shaker.Shaker.
func (s *Side) Begin(local, remote wire.Endpoint, params []byte, deliver func(*shaker.Step)) shaker.Handshake {
	h := &handshake{side: s, plan: s.Plan(), state: State{local, remote}, params: params, deliver: deliver}
	if h.plan.Suite == 0 {
		h.plan.Suite = uint16(aead.AES128GCM)
	}
	if h.plan.Params != nil {
		h.params = h.plan.Params(params)
	}
	s.mu.Lock()
	s.begun++
	s.mu.Unlock()
	if s.Client {
		h.hello = message(h.params, h.plan.Hello)
		h.say(&shaker.Step{Initial: h.hello})
	}
	return h
}

// Close implements shaker.Handshake.
func (h *handshake) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	h.side.mu.Lock()
	h.side.closed++
	h.side.mu.Unlock()
}

// Give implements shaker.Handshake.
func (h *handshake) Give(level wire.ShakeLevel, b []byte) bool {
	if h.side.Busy != nil && h.side.Busy() {
		return false
	}
	h.mu.Lock()
	i := 0
	if level == wire.ShakeHandshake {
		i = 1
	}
	h.in[i] = append(h.in[i], b...)
	step := h.advance()
	h.mu.Unlock()
	if step != nil {
		h.say(step)
	}
	return true
}

// say delivers a step.
func (h *handshake) say(step *shaker.Step) {
	f := func() {
		h.mu.Lock()
		closed := h.closed || h.plan.Silent
		h.mu.Unlock()
		if !closed {
			h.deliver(step)
		}
	}
	if h.side.Later == nil {
		f()
		return
	}
	h.side.Later(f)
}

// advance returns what follows from the bytes so far, or nil.
func (h *handshake) advance() *shaker.Step {
	switch {
	case h.phase == 0 && !whole(h.in[0]):
	case h.phase == 0 && h.side.Client:
		h.phase = 1
		early, next := h.secrets(h.hello, h.in[0])
		h.next = next
		return &shaker.Step{Out: [2]aead.Secret{early[0]}, In: [2]aead.Secret{early[1]}}
	case h.phase == 0:
		h.phase = 1
		h.hello = message(nil, h.plan.Hello)
		early, next := h.secrets(h.in[0], h.hello)
		h.next = next
		return &shaker.Step{
			Initial: h.hello, Handshake: message(h.params, h.plan.Rest), Params: contents(h.in[0]),
			Out: [2]aead.Secret{early[1], next[1]}, In: [2]aead.Secret{early[0]},
		}
	case h.phase == 1 && whole(h.in[1]):
		h.phase = 2
		if h.plan.Refuse != 0 {
			return &shaker.Step{Err: ErrRefused, Alert: h.plan.Refuse}
		}
		step := &shaker.Step{Done: true, State: h.state}
		if h.side.Client {
			step.Params, step.Handshake = contents(h.in[1]), message(nil, h.plan.Rest)
			step.Out[1], step.In[1] = h.next[0], h.next[1]
		} else {
			step.In[1] = h.next[0]
		}
		return step
	}
	return nil
}

// secrets returns the secrets of both generations, of the client's direction and of the server's. They depend on both hellos.
func (h *handshake) secrets(client, server []byte) (early, next [2]aead.Secret) {
	for i, name := range []string{"early client", "early server", "next client", "next server"} {
		mac := hmac.New(sha256.New, binary.BigEndian.AppendUint64(nil, h.plan.Seed))
		mac.Write([]byte(name))
		mac.Write(client)
		mac.Write(server)
		suite := aead.Suite(h.plan.Suite)
		secret, err := aead.NewSecret(suite, append(mac.Sum(nil), make([]byte, 64)...)[:suite.SecretLen()])
		if err != nil {
			panic(err)
		}
		if i < 2 {
			early[i] = secret
		} else {
			next[i-2] = secret
		}
	}
	return early, next
}

// message returns a message with contents, of at least n bytes.
func message(b []byte, n int) []byte {
	m := make([]byte, max(n, 8+len(b)))
	binary.BigEndian.PutUint32(m, uint32(len(m)))
	binary.BigEndian.PutUint32(m[4:], uint32(len(b)))
	copy(m[8:], b)
	return m
}

// whole reports whether a message is there.
func whole(m []byte) bool { return len(m) >= 8 && len(m) >= int(binary.BigEndian.Uint32(m)) }

// contents returns the contents of a whole message.
func contents(m []byte) []byte {
	n := min(int(binary.BigEndian.Uint32(m[4:])), len(m)-8)
	return append([]byte(nil), m[8:8+n]...)
}
