package nd

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// A region of more than 4 GiB is written and read beyond the first 4 GiB, with the local memory, the remote memory, or both there,
// and across that limit. Memory in front of it does not change.
func TestRegionBeyond4GiB(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("needs 64-bit addresses")
	}
	const mark, size = 1 << 32, 1<<32 + 1<<20
	r, _ := newLoopRig(t, DatapathUDP)
	client, server := r.connect(t, 4096)
	var large [2]*MemoryRegion
	for side, a := range []*Adapter{r.a, r.b} {
		memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if errors.Is(err, unix.ENOMEM) {
			t.Skipf("this process may map no %d bytes: %v", size, err)
		}
		must(t, err)
		t.Cleanup(func() { must(t, unix.Munmap(memory)) })
		large[side], err = a.CreateMemoryRegion()
		must(t, err)
		region := large[side]
		t.Cleanup(func() { must(t, region.Close()) })
		must(t, region.Register(memory, MRAllowLocalWrite|MRAllowRemoteRead|MRAllowRemoteWrite))
	}
	near, far := large[0].Bytes(), large[1].Bytes()
	const n = 20_000 // several packets
	for i, at := range []int{mark, mark - n/2, size - n} {
		fill := bytes.Repeat([]byte{byte(i + 1), byte(i + 2), 0xa5}, n/3+1)[:n]
		copy(near[at:], fill)
		must(t, client.qp.Write(1, []SGE{large[0].SGE(at, n)}, large[1].Address()+uint64(at), large[1].RemoteToken(), 0))
		client.wantResult(t, 1, RequestWrite, StatusSuccess)
		r.b.Stats() // tells the race detector that the engine has written
		if !bytes.Equal(far[at:][:n], fill) {
			t.Errorf("Write to %#x: other bytes", at)
		}
		clear(near[at:][:n])
		must(t, client.qp.Read(2, []SGE{large[0].SGE(at, n)}, large[1].Address()+uint64(at), large[1].RemoteToken(), 0))
		client.wantResult(t, 2, RequestRead, StatusSuccess)
		r.a.Stats()
		if !bytes.Equal(near[at:][:n], fill) {
			t.Errorf("Read from %#x: other bytes", at)
		}
		must(t, server.qp.Receive(3, []SGE{large[1].SGE(at, n)}))
		clear(far[at:][:n])
		must(t, client.qp.Send(4, []SGE{large[0].SGE(at, n)}, 0))
		server.wantResult(t, 3, RequestReceive, StatusSuccess)
		client.wantResult(t, 4, RequestSend, StatusSuccess)
		r.b.Stats()
		if !bytes.Equal(far[at:][:n], fill) {
			t.Errorf("Send to %#x: other bytes", at)
		}
	}
	if !bytes.Equal(far[:2*n], make([]byte, 2*n)) {
		t.Error("bytes at the beginning of the region changed")
	}
	must(t, client.qp.Write(5, []SGE{large[0].SGE(mark, 64)}, large[1].Address()+size-63, large[1].RemoteToken(), 0))
	client.wantResult(t, 5, RequestWrite, ErrAccessViolation)
}
