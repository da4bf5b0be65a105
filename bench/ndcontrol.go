package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// The control channel is a separate queue pair that carries JSON by Send and Receive. It runs one spec as follows:
//
//	requester                              responder
//	setup {spec, its region}     ->        makes region, queue pair, receives
//	                             <-        ready {its region}
//	connects the data queue pair ->        accepts it
//	                             <-        start
//	... measures ...                       ... answers, or checks what arrives ...
//	done {operations}            ->        verifies
//	                             <-        result {allocations, packets sent again, error}
const (
	hello = Schema + " control 3" // 1 had no markers and credits, 2 no plans

	controlBytes = 4096
	controlDepth = 8
)

// controlMessage is one message. Exactly one field is set.
type controlMessage struct {
	Setup  *setupMessage  `json:"setup,omitempty"`
	Ready  *remoteRegion  `json:"ready,omitempty"`
	Start  bool           `json:"start,omitempty"`
	Done   *doneMessage   `json:"done,omitempty"`
	Result *resultMessage `json:"result,omitempty"`
	Bye    bool           `json:"bye,omitempty"`

	// used by severally
	Plan     *planMessage `json:"plan,omitempty"`
	Next     *Spec        `json:"next,omitempty"`
	Started  *Spec        `json:"started,omitempty"`
	Told     *Interval    `json:"told,omitempty"`
	Measured *Result      `json:"measured,omitempty"`
	Over     bool         `json:"over,omitempty"`

	Error string `json:"error,omitempty"`
}

type setupMessage struct {
	Spec   Spec         `json:"spec"`
	Region remoteRegion `json:"region"`
	ID     string       `json:"id"` // private data of the data connection that follows
}

type doneMessage struct {
	Ops uint64 `json:"ops"` // all operations, including the warm-up
}

type resultMessage struct {
	Mallocs uint64        `json:"mallocs"`
	Resent  Resent        `json:"resent"`
	CPU     time.Duration `json:"cpu"`
	Elapsed time.Duration `json:"elapsed"`         // duration over which processor time was measured
	Error   string        `json:"error,omitempty"` // error of the verification
}

// control is one end of the channel. Slots 0 to controlDepth-1 of its region receive, the last slot sends.
type control struct {
	st   *station
	link *link
	mem  *region
	sges [1]nd.SGE

	arrived []arrival // at most controlDepth, one for each receive
	sending bool      // the send slot is in use
	broken  error     // why the connection ended; nil while it is open
}

type arrival struct{ slot, bytes int }

func newControl(s *station) (*control, error) {
	c := &control{st: s, arrived: make([]arrival, 0, controlDepth)}
	var err error
	if c.mem, err = s.newRegion(controlBytes, controlDepth+1); err != nil {
		return nil, err
	}
	if c.link, err = s.newLink(controlContext, controlDepth, 1, 1); err != nil {
		c.mem.close()
		return nil, err
	}
	for i := range controlDepth {
		if err := c.post(i); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *control) close() {
	c.link.close()
	c.mem.close()
}

func (c *control) post(slot int) error {
	return c.link.qp.Receive(uint64(slot), c.mem.sge(c.sges[:], slot))
}

// completed handles a completion of the control queue pair.
func (c *control) completed(r *nd.Result, err error) {
	if err != nil {
		if c.broken == nil { // later failures have the same reason
			c.broken = err
		}
		if r.RequestID != controlDepth {
			return
		}
	}
	if r.RequestID == controlDepth {
		c.sending = false
		return
	}
	c.arrived = append(c.arrived, arrival{int(r.RequestID), int(r.Bytes)})
}

// failed returns why the connection ended, after all messages that arrived were received, because the peer may send its last
// message and disconnect at once.
func (c *control) failed() error {
	if c.pending() {
		return nil
	}
	return c.broken
}

// pending reports whether a message has arrived. Hot loops call it after they polled for results.
func (c *control) pending() bool { return len(c.arrived) > 0 }

// send sends a message and waits until the peer has received it.
func (c *control) send(ctx context.Context, m controlMessage) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > controlBytes {
		return fmt.Errorf("control message of %d bytes is too long", len(text))
	}
	list := c.mem.sge(c.sges[:], controlDepth)
	list[0].Buffer = list[0].Buffer[:copy(list[0].Buffer, text)]
	c.sending = true
	if err := c.link.qp.Send(controlDepth, list, 0); err != nil {
		return fmt.Errorf("control channel: %w", err)
	}
	for c.sending {
		if err := c.wait(ctx); err != nil {
			return fmt.Errorf("control channel: send: %w", err)
		}
	}
	return nil
}

// recv returns the next message. If the peer reports an error, it returns the error.
func (c *control) recv(ctx context.Context) (controlMessage, error) {
	var m controlMessage
	for len(c.arrived) == 0 {
		if err := c.wait(ctx); err != nil {
			return m, fmt.Errorf("control channel: receive: %w", err)
		}
	}
	first := c.arrived[0]
	c.arrived = append(c.arrived[:0], c.arrived[1:]...)
	err := json.Unmarshal(c.mem.slot(first.slot)[:first.bytes], &m)
	if err == nil && c.broken == nil {
		err = c.post(first.slot)
	}
	if err != nil {
		return m, fmt.Errorf("control channel: %w", err)
	}
	if m.Error != "" {
		return m, fmt.Errorf("%w: %s", errPeer, m.Error)
	}
	return m, nil
}

// errPeer marks errors reported by the peer process.
var errPeer = errors.New("error of the peer process")

// expect is recv with the time-out of a protocol step.
func (c *control) expect(ctx context.Context) (controlMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return c.recv(ctx)
}

// wait sleeps until completions arrive, because nothing is measured while the control channel is in use. The peer may already send
// data before this side's start message is acknowledged, so data completions are kept.
func (c *control) wait(ctx context.Context) error {
	event := c.st.event
	c.st.event = true
	defer func() { c.st.event = event }()
	kept := c.st.stash
	c.st.stash = nil
	data, err := c.st.results(ctx)
	c.st.stash = append(kept, data...)
	return err
}
