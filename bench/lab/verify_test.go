package lab

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

type impairments = impair.Config

// fill writes noise.
func fill(b []byte, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, rng.Uint64())
	}
}

// firstDifference returns the first offset at which two slices of one length differ, or -1.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// await takes n results.
func (e *end) await(t *testing.T, n int) {
	t.Helper()
	var res [16]nd.Result
	for n > 0 {
		got, err := e.results(res[:min(n, len(res))])
		must(t, err)
		n -= got
	}
}

// verify transfers random bytes and compares every byte, pass after pass. Writes fill the peer's memory, and a Send announces that they
// have.
func (r *rig) verify(t *testing.T, passes int) (took time.Duration) {
	t.Helper()
	const size, chunk = 1 << 20, 32 << 10
	from, to := r.connect(t, 1, size, size/chunk+1)
	began := time.Now()
	for pass := range passes {
		fill(from.mr.Bytes(), uint64(pass))
		must(t, to.qp.Receive(0, nil))
		for at := 0; at < size; at += chunk {
			must(t, from.qp.Write(1, []nd.SGE{from.mr.SGE(at, chunk)}, to.mr.Address()+uint64(at), to.mr.RemoteToken(), 0))
		}
		must(t, from.qp.Send(2, nil, 0))
		from.await(t, size/chunk+1)
		to.await(t, 1)
		if at := firstDifference(from.mr.Bytes(), to.mr.Bytes()); at >= 0 {
			t.Fatalf("pass %d: byte %d is wrong", pass, at)
		}
	}
	return time.Since(began)
}

// detected returns how many packets were dropped because they were corrupted. Most fail the checksum. A packet that is damaged in its base
// header can be dropped before that, for the version, the flags or the connection in it. A host may answer a packet for an unknown
// connection with an RST, which the peer counts as unknown, too. So the result can be too high.
func detected(drops map[string]uint64) (n int) {
	for _, reason := range []string{"crc", "version", "reserved", "sealed", "unknown_conn", "rate"} {
		n += int(drops[reason])
	}
	return n
}

// everything is all impairments at once.
var everything = impairments{Loss: 0.01, Duplication: 0.01, Corruption: 0.01}

// Every byte arrives whatever the network does to packets, on every datapath and over IPv6, and all impairments are detected. A generic
// XDP program does not see duplicates, because the kernel treats the copies as packets that tc redirected. So the hosts use native
// programs here.
func TestEveryByteArrives(t *testing.T) {
	for name, test := range map[string]struct {
		setup setup
		do    impairments
	}{
		"loss":          {setup{}, impairments{Loss: 0.01}},
		"corruption":    {setup{}, impairments{Corruption: 0.01}},
		"duplication":   {setup{datapath: nd.DatapathNative}, impairments{Duplication: 0.01}},
		"all, narrow":   {setup{datapath: nd.DatapathNative, bottleneck: megabits(rate)}, everything},
		"all, IPv6":     {setup{datapath: nd.DatapathNative, ipv6: true}, everything},
		"plain sockets": {setup{datapath: nd.DatapathUDP}, impairments{Loss: 0.01, Duplication: 0.01}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.setup)
			spoiler := r.impair(t)
			test.do.Seed = 1
			must(t, spoiler.Set(test.do))
			const passes = 8
			took := r.verify(t, passes)
			// All packets have arrived, so both counters agree, except for answers to duplicates.
			counts, err := spoiler.Counts()
			must(t, err)
			stats := r.stats()
			t.Logf("%d MB in %v: %+v, %d resent, %d time-outs, drops %v",
				passes, took.Round(time.Millisecond), counts, stats.Recovery.Retransmits, stats.Recovery.Timeouts, stats.Drops)
			if test.do.Loss > 0 && (counts.Dropped == 0 || stats.Recovery.Retransmits == 0) {
				t.Error("nothing was lost, or nothing sent again")
			}
			// One of the two copies may be corrupted, or belong to the handshake.
			if noticed := int(stats.Drops["duplicate"]); test.do.Duplication > 0 && (counts.Duplicated == 0 || noticed < counts.Duplicated*9/10) {
				t.Errorf("%d packets were doubled, %d noticed", counts.Duplicated, noticed)
			}
			if test.do.Corruption > 0 && counts.Corrupted == 0 {
				t.Error("nothing was corrupted")
			}
			// A corrupted packet that the bottleneck's full queue drops is not detected.
			full := 0
			if test.setup.bottleneck.BytesPerSec > 0 {
				full = r.dropped(t)
			}
			testhelp.Eventually(t, "every corrupted packet to be caught", func() bool { // answers to duplicates may be on their way
				counts, err = spoiler.Counts()
				must(t, err)
				return detected(r.stats().Drops) >= counts.Corrupted-full
			})
			if caught := int(r.stats().Drops["crc"]); caught > counts.Corrupted {
				t.Errorf("%d packets were corrupted, %d caught, %d found the queue full", counts.Corrupted, caught, full)
			}
		})
	}
}
