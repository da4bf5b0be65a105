package nd

import "testing"

// Two adapters use generators with different seeds: tokens and addresses of one say nothing about those of the other. Connection
// ids, first packet numbers and keys come from the same generator (PROTOCOL §7.6).
func TestAdaptersDiffer(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	tokens, addresses := map[Token]int{}, map[uint64]int{}
	const n = 64
	for _, a := range []*Adapter{r.a, r.b} {
		for range n {
			m, err := a.RegisterMemory(make([]byte, 64), 0)
			must(t, err)
			tokens[m.LocalToken()]++
			addresses[m.Address()]++
			t.Cleanup(func() { must(t, m.Close()) })
		}
	}
	if len(tokens) < 2*n-1 || len(addresses) != 2*n { // two of 128 tokens may coincide, once in 500,000 runs
		t.Errorf("%d tokens and %d addresses are different, of %d", len(tokens), len(addresses), 2*n)
	}
}
