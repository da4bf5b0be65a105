package verbs

import (
	"math"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

func TestTransferLength(t *testing.T) {
	for _, c := range []struct {
		total   uint64
		entries int
		length  uint32
		want    provider.Outcome
	}{
		{0, 0, 0, provider.OutcomeSuccess},
		{provider.MaxTransfer, provider.MaxSGE, provider.MaxTransfer, provider.OutcomeSuccess},
		{provider.MaxTransfer + 1, 1, provider.MaxTransfer + 1, provider.OutcomeSuccess}, // the queue refuses it after it has counted the entries
		{math.MaxUint64, 1, math.MaxUint32, provider.OutcomeSuccess},
		{math.MaxUint64, provider.MaxSGE + 1, math.MaxUint32, provider.OutcomeDataOverrun}, // entries are checked first
	} {
		if n, o := transferLength(c.total, c.entries); n != c.length || o != c.want {
			t.Errorf("%d bytes in %d entries: %d, %v", c.total, c.entries, n, o)
		}
	}
}

func TestRights(t *testing.T) {
	for flags, want := range map[uint32]provider.Rights{
		0: 0, 1: provider.RightLocalWrite, 2: provider.RightRemoteRead, 8: 0,
		5: provider.RightLocalWrite | provider.RightRemoteWrite, 7: provider.RightLocalWrite | provider.RightRemoteRead | provider.RightRemoteWrite,
	} {
		if r := rights(flags); r != want {
			t.Errorf("flags %d: %d, want %d", flags, r, want)
		}
	}
}
