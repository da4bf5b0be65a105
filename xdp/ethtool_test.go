package xdp

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestEthtoolStructs: the kernel writes whole structs of nine words, and the fields are read where it writes them.
func TestEthtoolStructs(t *testing.T) {
	var c ethtoolChannels
	var r ethtoolRings
	for name, at := range map[string][2]uintptr{
		"channels": {unsafe.Sizeof(c), 36}, "rx_count": {unsafe.Offsetof(c.rxCount), 20}, "tx_count": {unsafe.Offsetof(c.txCount), 24},
		"combined_count": {unsafe.Offsetof(c.combinedCount), 32},
		"ringparam":      {unsafe.Sizeof(r), 36}, "rx_pending": {unsafe.Offsetof(r.rxCount), 20},
		"ifreq": {unsafe.Sizeof(ifreqData{}), unix.IFNAMSIZ + 24},
	} {
		if at[0] != at[1] {
			t.Errorf("%s: %d, want %d", name, at[0], at[1])
		}
	}
}
