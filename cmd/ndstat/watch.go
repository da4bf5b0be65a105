package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// watch queries all processes repeatedly, and keeps the last two rounds.
type watch struct {
	flags    *flags
	request  ndinspect.Request
	problems map[string]error // errors of this round, by socket
	told     map[string]string
	noted    map[string]bool // lines beside the table that are still in the output
	redraws  bool            // each round clears the screen
	before   map[string]*ndinspect.Reply
	now      map[string]*ndinspect.Reply
	last, at time.Time // times of the previous and the present round
}

func newWatch(f *flags, q ndinspect.Request) *watch {
	return &watch{flags: f, request: q, told: map[string]string{}}
}

// look queries every process once, concurrently. It fails if none answers.
func (w *watch) look(ctx context.Context) error {
	w.before, w.now, w.problems = w.now, map[string]*ndinspect.Reply{}, map[string]error{}
	w.last, w.at = w.at, time.Now()
	sockets := w.flags.sockets
	if sockets == nil {
		sockets = ndinspect.Sockets()
	}
	for _, a := range ndinspect.AskAll(ctx, sockets, w.request) {
		switch {
		case errors.Is(a.Err, ndinspect.ErrGone) && w.flags.sockets == nil:
		case a.Err != nil:
			w.problems[a.Socket] = a.Err
		case w.flags.pid == 0 || w.flags.pid == a.Reply.PID:
			w.now[a.Socket] = a.Reply
		}
	}
	if len(w.now) > 0 {
		return nil
	}
	if len(w.problems) > 0 {
		return errors.Join(distinct(maps.Values(w.problems))...)
	}
	if w.flags.pid != 0 {
		return fmt.Errorf("process %d has no ND adapter open, or its program forbids inspection: ndstat without --pid lists all processes that can be inspected", w.flags.pid)
	}
	return errNobody
}

// distinct removes errors with equal texts.
func distinct(errs iter.Seq[error]) (list []error) {
	said := map[string]bool{}
	for err := range errs {
		if !said[err.Error()] {
			said[err.Error()] = true
			list = append(list, err)
		}
	}
	return list
}

// tellProblems prints each problem of a socket once.
func (w *watch) tellProblems(out io.Writer) {
	for path, err := range w.problems {
		if w.told[path] != err.Error() {
			w.told[path] = err.Error()
			fmt.Fprintln(out, "ndstat:", cli.OneLine(err))
		}
	}
}

// row is a connection during an interval.
type row struct {
	process   *ndinspect.Reply
	conn      nd.ConnectionInfo
	in, out   float64 // bytes per second
	resent    uint64  // during the interval
	limitedBy string
	share     float64 // of the interval
}

// earlier returns the reply with which this round's counters are compared: the previous reply, or an empty one for an adapter that
// was opened meanwhile. It returns nil in the first round, and for an adapter whose opening time is unknown.
func (w *watch) earlier(path string) *ndinspect.Reply {
	r, b := w.now[path], w.before[path]
	switch {
	case b != nil && b.PID == r.PID && b.Opened.Equal(r.Opened) && !less(&r.Stats, &b.Stats):
		return b
	case r.Opened.IsZero() || b == nil && (w.last.IsZero() || r.Opened.Before(w.last)): // not shown before
		return nil
	}
	return &ndinspect.Reply{PID: r.PID, At: r.Opened, Opened: r.Opened}
}

// less reports whether counters that only grow are less than before.
func less(now, before *nd.Stats) bool {
	return now.Packets.In < before.Packets.In || now.Packets.Out < before.Packets.Out || now.Connections.Established < before.Connections.Established ||
		now.Waits.Sleeps < before.Waits.Sleeps || now.Waits.Spins < before.Waits.Spins || now.Waits.SpinHits < before.Waits.SpinHits
}

// rows compares this round with the previous one. The busiest connections come first.
func (w *watch) rows() (all []row) {
	for path, r := range w.now {
		old := map[uint64]nd.ConnectionInfo{}
		seconds := 0.0
		if b := w.earlier(path); b != nil {
			seconds = r.At.Sub(b.At).Seconds()
			for _, c := range b.Connections {
				old[c.ID] = c
			}
		}
		for _, c := range r.Connections {
			all = append(all, compare(r, old[c.ID], c, seconds))
		}
	}
	slices.SortFunc(all, func(a, b row) int {
		switch {
		case a.in+a.out != b.in+b.out:
			return int(b.in+b.out) - int(a.in+a.out)
		case a.process.PID != b.process.PID:
			return a.process.PID - b.process.PID
		}
		return a.conn.Remote.Compare(b.conn.Remote)
	})
	return all
}

// compare returns the row of a connection. old is zero for a new connection.
func compare(r *ndinspect.Reply, old, c nd.ConnectionInfo, seconds float64) row {
	if c.BytesIn < old.BytesIn || c.BytesOut < old.BytesOut || c.Retransmits < old.Retransmits {
		old = nd.ConnectionInfo{} // another connection with a reused number
	}
	x := row{process: r, conn: c, resent: c.Retransmits - old.Retransmits, limitedBy: c.LimitedBy}
	if seconds > 0 {
		x.in, x.out = float64(c.BytesIn-old.BytesIn)/seconds, float64(c.BytesOut-old.BytesOut)/seconds
	}
	before, sum := old.Limited.By(), 0.0
	most := 0.0
	for i, d := range c.Limited.By() {
		spent := (d - before[i]).Seconds()
		sum += spent
		if spent > most {
			most, x.limitedBy = spent, nd.LimitNames()[i]
		}
	}
	if sum > 0 {
		x.share = most / sum
	}
	return x
}
