package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

const challengeStart = clock.Time(time.Second)

// There is one CHALLENGE at a time and one in a round trip, and each is answered once (PROTOCOL §6.1).
func TestChallenge(t *testing.T) {
	var ch challenge
	if !ch.Due(challengeStart, time.Hour) || ch.Answered(0) {
		t.Error("one that was never sent")
	}
	ch.Send(challengeStart, 7)
	if ch.Due(challengeStart.Add(time.Millisecond-1), time.Millisecond) || !ch.Due(challengeStart.Add(time.Millisecond), time.Millisecond) {
		t.Error("not one in a round trip")
	}
	if ch.Answered(8) || !ch.Answered(7) || ch.Answered(7) {
		t.Error("answered by another nonce, or twice")
	}
	if ch.Send(challengeStart, 9) != 9 || ch.Send(challengeStart, 10) != 9 {
		t.Error("a repetition has another nonce, or a new one the old")
	}
	if ch.Answered(7) || ch.Answered(10) || !ch.Answered(9) {
		t.Error("one that was never sent counts, or one that was answered")
	}
}

// If a CHALLENGE stays unanswered for a time-out, this side changes its own port. The time doubles with each change, up to a
// second, so that a peer that never answers costs little (PROTOCOL §6.1).
func TestChallengeInVain(t *testing.T) {
	var ch challenge
	const timeout = 2 * time.Millisecond
	if ch.InVain(challengeStart.Add(time.Hour), timeout) {
		t.Error("unanswered before it was sent")
	}
	var at []time.Duration
	for now := challengeStart; now < challengeStart.Add(10*time.Second); now += clock.Time(time.Millisecond) {
		ch.Send(now, 1)
		if ch.InVain(now, timeout) {
			at = append(at, now.Sub(challengeStart))
		}
	}
	want := []time.Duration{2, 6, 14, 30, 62, 126, 254, 510, 1022, 2022, 3022}
	for i, w := range want {
		if i >= len(at) || at[i] != w*time.Millisecond {
			t.Fatalf("unanswered at %v, want %v ms", at, want)
		}
	}
	if !ch.Answered(1) || ch.InVain(challengeStart.Add(time.Hour), timeout) {
		t.Error("unanswered although it was answered")
	}
	ch.Send(challengeStart, 2)
	if ch.InVain(challengeStart.Add(timeout-1), timeout) || !ch.InVain(challengeStart.Add(timeout), timeout) {
		t.Error("an answer does not begin anew")
	}
}
