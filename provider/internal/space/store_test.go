package space

import "testing"

// However many connections a source has, it gets at most three quarters of the store, so that another source gets some. A source
// without connections has no account.
func TestShareOfASource(t *testing.T) {
	const size = 1 << smallest
	for _, conns := range []int{1, 2, 3, 10, 100} {
		store := NewStore(300 * size)
		greedy := make([]Gaps, conns)
		for i := range greedy {
			greedy[i].Begin(store.Open([16]byte{1}))
		}
		for n, taken := 0, true; taken; n++ {
			taken = false
			for i := range greedy {
				if greedy[i].Hold(&store, At(0, uint32(n)), At(0, uint32(n)+1), size, 0) != nil {
					taken = true
				}
			}
		}
		if got, want := store.Used()/size, min(300*conns/(conns+1), 225); got > 225 || got < want-conns || got > want+conns {
			t.Errorf("%d connections of one source take %d of 300, want about %d", conns, got, want)
		}
		var honest Gaps
		honest.Begin(store.Open([16]byte{2}))
		n := uint32(0)
		for honest.Hold(&store, At(n, 0), At(n, 1), size, 0) != nil {
			n++
		}
		if n < 36 {
			t.Errorf("%d connections of one source leave %d of 300 to another", conns, n)
		}
		honest.Drop(&store)
		store.Close(honest.account)
		for i := range greedy {
			greedy[i].Drop(&store)
			store.Close(greedy[i].account)
		}
		if store.Used() != 0 || len(store.accounts) != 0 {
			t.Errorf("%d bytes and %d accounts are left", store.Used(), len(store.accounts))
		}
	}
}

// Memory charged without packets counts like packets. Memory that a connection already has is charged without a limit.
func TestChargedMemory(t *testing.T) {
	store := NewStore(100)
	a := store.Open([16]byte{1})
	if !store.Charge(a, 50, 0) || store.Charge(a, 1, 50) || store.Charge(nil, 51, 0) {
		t.Error("a connection has more than is free, or less")
	}
	store.Refund(a, -30)
	if store.Charge(a, 1, 0) || store.Used() != 80 {
		t.Errorf("%d are charged", store.Used())
	}
	if b := store.Open([16]byte{2}); !store.Charge(b, 10, 0) || store.Charge(b, 6, 10) {
		t.Error("another source has more than is free, or less")
	}
	store.Refund(a, 80)
	if store.Used() != 10 || a.used != 0 {
		t.Errorf("%d are charged", store.Used())
	}
}
