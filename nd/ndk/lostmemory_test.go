package ndk

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// fileMapping is a mapped file with this many pages.
func fileMapping(t *testing.T, pages int) (file *os.File, b []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("lossy", unix.MFD_CLOEXEC)
	must(t, err)
	file = os.NewFile(uintptr(fd), "lossy")
	t.Cleanup(func() { file.Close() })
	must(t, file.Truncate(int64(pages*PageSize)))
	b, err = unix.Mmap(fd, 0, pages*PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	return file, b // stays mapped until the process ends
}

// If a mapped file is truncated, requests with the lost memory end with an access violation, here and at the peer. The lost memory
// cannot be registered.
func TestFileThatGetsShorter(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		post func(client, server *end, m *MR) Status
		kind OperationType
	}{
		"Write": {post: func(client, server *end, m *MR) Status {
			return client.qp.Write(1, []SGE{m.SGE(PageSize-100, 200)}, server.mr.Address(), server.mr.RemoteToken(), 0)
		}, kind: OperationWrite},
		"Read": {post: func(client, server *end, m *MR) Status {
			return client.qp.Read(1, []SGE{m.SGE(PageSize-100, 200)}, server.mr.Address(), server.mr.RemoteToken(), 0)
		}, kind: OperationRead},
		"Send": {post: func(client, server *end, m *MR) Status {
			want(t, "receive", server.qp.Receive(2, []SGE{server.mr.SGE(0, 200)}), StatusSuccess)
			return client.qp.Send(1, []SGE{m.SGE(PageSize-100, 200)}, 0)
		}, kind: OperationSend},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := r.connected(t)
			file, b := fileMapping(t, 2)
			m, s := client.pd.CreateMR(false, nil, nil)
			m = created(t, m, s)
			t.Cleanup(func() { closed(t, m.Close) })
			want(t, "register", m.Register(b, MRAllowLocalWrite, nil, nil), StatusSuccess)
			must(t, file.Truncate(PageSize))
			want(t, "post", c.post(client, server, m), StatusSuccess)
			client.wantResult(t, 1, c.kind, StatusAccessViolation)
			want(t, "deregister", m.Deregister(nil, nil), StatusSuccess)
			want(t, "register again", m.Register(b, MRAllowLocalWrite, nil, nil), StatusAccessViolation)
			want(t, "register what is there", m.Register(b[:PageSize], MRAllowLocalWrite, nil, nil), StatusSuccess)
		})
	}
}
