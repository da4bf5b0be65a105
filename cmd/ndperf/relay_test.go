package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/bench"
)

// TestRelayNamesTheCause lets both sides fail, in either order. A failure that only follows from the end of the other side is not
// reported as the cause.
func TestRelayNamesTheCause(t *testing.T) {
	failed := func(role bench.Role, m message) event { return event{from: &side{role: role}, msg: m} }
	cause := failed(bench.Requester, message{Error: "pass 3 did not move its bytes"})
	left := failed(bench.Responder, message{Error: "canceled", Follows: true})
	died := event{from: &side{role: bench.Responder}, err: errors.New("killed"), end: true}
	end := event{end: true}
	for _, c := range []struct {
		name   string
		events []event
		want   string
	}{
		{"cause first", []event{cause, left, end, end}, "requester: pass 3 did not move its bytes"},
		{"consequence first", []event{left, cause, end, end}, "requester: pass 3 did not move its bytes"},
		{"consequence alone", []event{left, end, end}, "responder: canceled"},
		{"told to end", []event{left, end, died}, "responder: canceled"},
		{"died", []event{died, failed(bench.Requester, message{Error: "canceled", Follows: true}), end}, "killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			events := make(chan event, len(c.events))
			for _, e := range c.events {
				events <- e
			}
			if err := relay(cancel, events, 2, nil, ctx); err == nil || err.Error() != c.want {
				t.Errorf("relay says %v, want %s", err, c.want)
			}
			if ctx.Err() == nil {
				t.Error("the rest was not told to end")
			}
		})
	}
}

// TestInterruptedWhileAJobIsHandedOver: if an interruption closes the input of a side before it has its job, the interruption is the
// reported cause, and not the closed input.
func TestInterruptedWhileAJobIsHandedOver(t *testing.T) {
	t.Setenv(runAgain, "1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupt := func(cmd *exec.Cmd) error {
		err := cmd.Start()
		cancel()
		return errors.Join(err, cmd.Cancel())
	}
	if _, err := startSide(ctx, interrupt, bench.Job{}, -1); !errors.Is(err, context.Canceled) || errors.Is(err, os.ErrClosed) || strings.Contains(err.Error(), "\n") {
		t.Errorf("it ended with %v", err)
	}
}
