package answers

import "testing"

// Answers arrive in the order of READ ids, byte after byte. The bytes of outstanding READs count against a window until they
// arrive.
func TestAskedInOrder(t *testing.T) {
	var a Asked
	const first = 1<<32 - 1 // ids wrap around
	a.Start(first)
	if _, ok := a.Find(first); ok || a.Fill(0) || a.Waiting() != 0 {
		t.Error("a READ is outstanding")
	}
	a.Add(7, 100)
	a.Add(9, 50)
	if seq, ok := a.Find(0); !ok || seq != 9 || a.Oldest() != 7 || a.Waiting() != 2 || a.Fill(151) || !a.Fill(150) {
		t.Errorf("the second READ is at %d, %t; %d wait", seq, ok, a.Waiting())
	}
	if _, ok := a.Find(1); ok || a.Next(0, 0) || a.Next(first, 1) || !a.Next(first, 0) {
		t.Error("the next byte is not the first one")
	}
	if a.Take(60); !a.Next(first, 60) || a.Fill(91) || !a.Fill(90) {
		t.Error("received bytes count as outstanding")
	}
	if a.Remove(100); !a.Next(0, 0) || a.Oldest() != 9 || a.Waiting() != 1 || a.Fill(51) || !a.Fill(50) {
		t.Errorf("%d wait behind the first one", a.Waiting())
	}
	a.Add(11, 10)
	if a.GiveUp(); a.Waiting() != 0 || a.Fill(0) || !a.Next(2, 0) {
		t.Error("a canceled READ is outstanding, or ids restart")
	}
}
