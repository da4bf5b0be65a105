package nd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lossyFile is a file of size bytes and one page before them, with its mapping. The first page stays.
type lossyFile struct {
	file *os.File
	all  []byte
}

const lossyPage = 4096

func newLossyFile(t *testing.T, size int) *lossyFile {
	t.Helper()
	fd, err := unix.MemfdCreate("lossy", unix.MFD_CLOEXEC)
	must(t, err)
	f := &lossyFile{file: os.NewFile(uintptr(fd), "lossy")}
	t.Cleanup(func() { f.file.Close() })
	must(t, f.file.Truncate(int64(lossyPage+size)))
	f.all, err = unix.Mmap(fd, 0, lossyPage+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	return f // stays mapped until the process ends, because adapters may outlive the test
}

// loss is a way in which a program loses registered memory, or only the right to write it.
type loss struct {
	name  string
	lose  func(f *lossyFile) error
	reads bool // it is still readable
}

var losses = []loss{
	{"truncated", func(f *lossyFile) error { return f.file.Truncate(lossyPage) }, false},
	{"protected", func(f *lossyFile) error { return unix.Mprotect(f.all[lossyPage:], unix.PROT_NONE) }, false},
	{"read-only", func(f *lossyFile) error { return unix.Mprotect(f.all[lossyPage:], unix.PROT_READ) }, true},
}

// lossyCase is a request whose memory is lost, and its outcome.
type lossyCase struct {
	name     string
	atServer bool // the server's memory is lost
	post     func(client, server *end, mine, theirs SGE, at *MemoryRegion) error
	kind     RequestType
	writes   bool // the request writes to the lost memory
	receives bool // the server's Receive ends with the violation, and the client's request with any error
}

func lossyCases(offset uint64) []lossyCase {
	write := func(client, _ *end, mine, _ SGE, at *MemoryRegion) error {
		return client.qp.Write(1, []SGE{mine}, at.Address()+offset, at.RemoteToken(), 0)
	}
	read := func(client, _ *end, mine, _ SGE, at *MemoryRegion) error {
		return client.qp.Read(1, []SGE{mine}, at.Address()+offset, at.RemoteToken(), 0)
	}
	send := func(client, server *end, mine, theirs SGE, _ *MemoryRegion) error {
		return errors.Join(server.qp.Receive(2, []SGE{theirs}), client.qp.Send(1, []SGE{mine}, 0))
	}
	return []lossyCase{
		{name: "source of a Write", post: write, kind: RequestWrite},
		{name: "target of a Write", post: write, kind: RequestWrite, atServer: true, writes: true},
		{name: "source of a Read", post: read, kind: RequestRead, atServer: true},
		{name: "target of a Read", post: read, kind: RequestRead, writes: true},
		{name: "source of a Send", post: send, kind: RequestSend},
		{name: "target of a Send", post: send, kind: RequestSend, atServer: true, writes: true, receives: true},
	}
}

// A request that touches memory lost by its process ends with an access violation. The process and its other connections continue.
func TestMemoryThatIsLost(t *testing.T) {
	t.Parallel()
	for _, dp := range []Datapath{DatapathAuto, DatapathUDP} {
		r := newRig(t, 1500, dp)
		other, others := r.connect(t, 4096)
		for _, loss := range losses {
			for _, n := range []int{64, 300, 100_000} {
				for _, c := range lossyCases(lossyPage / 2) {
					t.Run(fmt.Sprintf("%v/%s/%s/%d", dp, c.name, loss.name, n), func(t *testing.T) { tryLoss(t, r, c, loss, n) })
				}
			}
		}
		must(t, other.qp.Write(1, []SGE{other.mr.SGE(0, 4096)}, others.mr.Address(), others.mr.RemoteToken(), 0))
		other.wantResult(t, 1, RequestWrite, StatusSuccess)
	}
}

// A request that touches unmapped memory ends with an access violation as well. This test runs alone, because another test may map
// memory at the same address.
func TestMemoryThatIsUnmapped(t *testing.T) {
	r := newRig(t, 1500, DatapathUDP)
	for _, c := range lossyCases(lossyPage / 2) {
		t.Run(c.name, func(t *testing.T) {
			tryLoss(t, r, c, loss{lose: func(f *lossyFile) error { return unix.Munmap(f.all) }}, 300)
		})
	}
}

func tryLoss(t *testing.T, r *rig, c lossyCase, loss loss, n int) {
	const flags = MRAllowRemoteRead | MRAllowRemoteWrite
	client, server := r.connect(t, 4096)
	var files [2]*lossyFile
	var regions [2]*MemoryRegion
	for i, e := range []*end{client, server} {
		files[i] = newLossyFile(t, n)
		var err error
		regions[i], err = e.ctr.adapter.RegisterMemory(files[i].all, flags)
		must(t, err)
		t.Cleanup(func() { must(t, regions[i].Close()) })
	}
	// The access begins in the page that stays, and ends in a page that is lost.
	mine, theirs := regions[0].SGE(lossyPage/2, lossyPage/2+n), regions[1].SGE(lossyPage/2, lossyPage/2+n)
	must(t, c.post(client, server, mine, theirs, regions[1]))
	client.wantResult(t, 1, c.kind, StatusSuccess)
	if c.kind == RequestSend {
		server.wantResult(t, 2, RequestReceive, StatusSuccess)
	}
	lost := files[0]
	if c.atServer {
		lost = files[1]
	}
	must(t, loss.lose(lost))
	must(t, c.post(client, server, mine, theirs, regions[1]))
	if c.receives {
		server.wantResult(t, 2, RequestReceive, ErrAccessViolation)
		if res := client.result(t); res.Status == StatusSuccess {
			t.Errorf("result %+v of a Send whose Receive failed", res)
		}
		return
	}
	want := ErrAccessViolation
	if loss.reads && !c.writes {
		want = StatusSuccess
	}
	client.wantResult(t, 1, c.kind, want)
}

// A mapping that is longer than its file cannot be registered.
func TestRegisterBehindTheEndOfAFile(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	f := newLossyFile(t, 3*lossyPage)
	must(t, f.file.Truncate(2*lossyPage-100))
	m, err := r.a.RegisterMemory(f.all[:2*lossyPage], MRAllowLocalWrite) // the rest of the file's last page exists
	must(t, err)
	must(t, m.Close())
	_, err = r.a.RegisterMemory(f.all[5:], MRAllowRemoteRead)
	wantStatus(t, "register", err, ErrAccessViolation)
	if !strings.Contains(err.Error(), "byte 8187 of 16379 is past the end of the mapped file") {
		t.Errorf("%v", err)
	}
}
