package credit

import "testing"

// A receive limit rises with the peer's receives, and falls if the peer takes receives back. A limit too far from the next SEND is
// ignored, because the order of such numbers is undefined.
func TestLimitsBeyondReach(t *testing.T) {
	for _, test := range []struct {
		name                string
		sent, limit, told   uint32
		allowed, disallowed uint32
	}{
		{"more", 50, 59, 60, 60, 59},
		{"no more", 50, 59, 59, 59, 59},
		{"less", 50, 59, 52, 59, 52},
		{"less than was sent", 50, 59, 48, 59, 48},
		{"round the end", 0xfffffff0, 0xfffffffe, 5, 5, 0xfffffffe},
		{"as far as may be", 50, 59, 50 + Farthest, 50 + Farthest, 59},
		{"too far", 50, 59, 51 + Farthest, 59, 59},
		{"far beyond, the order unknown", 50, 59, 59 + 1<<31 - 1, 59, 59},
		{"taken back too far", 50, 59, 60 + 1<<31, 59, 59},
	} {
		for taken, want := range map[bool]uint32{false: test.allowed, true: test.disallowed} {
			limit := Raise(test.limit, test.sent, test.told)
			if taken {
				limit = Lower(test.limit, test.sent, test.told)
			}
			if limit != want {
				t.Errorf("%s, taken back: %v: the limit is %d, want %d", test.name, taken, limit, want)
			}
		}
	}
}
