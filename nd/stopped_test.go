package nd

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// A receiver that is stopped for 5 ms of every 20 ms gets every byte and keeps its connection, and few packets are retransmitted.
// BenchmarkStoppedReceiver in bench/lab measures the cost.
func TestStoppedReceiver(t *testing.T) {
	t.Parallel()
	program := netlabtest.Build(t, peerProgram)
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint("MTU", mtu), func(t *testing.T) {
			p := startPeer(t, program, DatapathGeneric, mtu)
			for i := range p.mr.Bytes() {
				p.mr.Bytes()[i] = byte(i*7 + i>>8)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var times int
			stopping := start(func() (err error) {
				times, _, err = p.StopAndGo(ctx, 5*time.Millisecond, 15*time.Millisecond)
				return err
			})
			p.writeAll(t, 200)
			cancel()
			must(t, finish(t, "stop", stopping))
			if got, want := p.Ask(t, "sum"), strconv.FormatUint(uint64(crc32.ChecksumIEEE(p.mr.Bytes())), 10); got != want {
				t.Errorf("the process has bytes of checksum %s, want %s", got, want)
			}
			s := p.adapter.Stats()
			t.Logf("stopped %d times: %d packets, %d sent again, %d time-outs, %d of them spurious", times, s.Packets.Out, s.Recovery.Retransmits, s.Recovery.Timeouts, s.Recovery.Spurious)
			if s.Recovery.Retransmits > uint64(8*times+16) || s.Connections.Lost != 0 { // a probe and a time-out each time, and the retransmissions that they cause
				t.Errorf("%d packets of %d were retransmitted, and %d connections lost", s.Recovery.Retransmits, s.Packets.Out, s.Connections.Lost)
			}
			p.End(t)
		})
	}
}

// writeAll writes all of our memory to the process the given number of times, four Writes at once.
func (p *peerProcess) writeAll(t *testing.T, times int) {
	t.Helper()
	const depth = 4
	addr, token := binary.BigEndian.Uint64(p.granted), Token(binary.BigEndian.Uint32(p.granted[8:]))
	sge := []SGE{p.mr.SGE(0, len(p.mr.Bytes()))}
	for posted, done := 0, 0; done < times; done++ {
		for ; posted < min(done+depth, times); posted++ {
			must(t, p.qp.Write(uint64(posted), sge, addr, token, 0))
		}
		p.wantResult(t, uint64(done), RequestWrite, StatusSuccess)
	}
}
