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

	"github.com/ndxdp/ndxdp/internal/cli"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndinspect"
)

// watch asks all processes again and again, and keeps the last two rounds.
type watch struct {
	flags    *flags
	request  ndinspect.Request
	problems map[string]error // of this round, by socket
	told     map[string]string
	noted    map[string]bool // lines beside the table that stand in the output
	redraws  bool            // each round clears what the output has
	before   map[string]*ndinspect.Reply
	now      map[string]*ndinspect.Reply
	last, at time.Time // when the previous and the current replies were asked for
}

func newWatch(f *flags, q ndinspect.Request) *watch {
	return &watch{flags: f, request: q, told: map[string]string{}}
}

// look asks every process once, all at a time. It fails when nobody answers.
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
		return fmt.Errorf("process %d has no ND adapter open, or hides it: ndstat without --pid lists the processes that show one", w.flags.pid)
	}
	return errNobody
}

// distinct leaves out errors that say what an earlier one says.
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

// tellProblems says once what is wrong with a socket.
func (w *watch) tellProblems(out io.Writer) {
	for path, err := range w.problems {
		if w.told[path] != err.Error() {
			w.told[path] = err.Error()
			fmt.Fprintln(out, "ndstat:", cli.OneLine(err))
		}
	}
}

// row is a connection over an interval.
type row struct {
	process   *ndinspect.Reply
	conn      nd.ConnectionInfo
	in, out   float64 // bytes a second
	resent    uint64  // in the interval
	limitedBy string
	share     float64 // of the interval
}

// earlier returns what the counters of this round go on from: the reply of the round before, or for an adapter that was opened since, perhaps in the place of another
// one, nothing at that moment. It is nil in the first round, and for another adapter that does not say when it was opened.
func (w *watch) earlier(path string) *ndinspect.Reply {
	r, b := w.now[path], w.before[path]
	switch {
	case b != nil && b.PID == r.PID && b.Opened.Equal(r.Opened) && !less(&r.Stats, &b.Stats):
		return b
	case r.Opened.IsZero() || b == nil && (w.last.IsZero() || r.Opened.Before(w.last)): // not shown before, for whatever reason
		return nil
	}
	return &ndinspect.Reply{PID: r.PID, At: r.Opened, Opened: r.Opened}
}

// less reports whether counters which only grow are less than before.
func less(now, before *nd.Stats) bool {
	return now.PacketsIn < before.PacketsIn || now.PacketsOut < before.PacketsOut || now.Established < before.Established ||
		now.Sleeps < before.Sleeps || now.Spins < before.Spins || now.SpinHits < before.SpinHits
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

// compare makes the row of a connection; the zero ConnectionInfo stands for one that was not there before.
func compare(r *ndinspect.Reply, old, c nd.ConnectionInfo, seconds float64) row {
	if c.BytesIn < old.BytesIn || c.BytesOut < old.BytesOut || c.Retransmits < old.Retransmits {
		old = nd.ConnectionInfo{} // another one, with a number that was used before
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
