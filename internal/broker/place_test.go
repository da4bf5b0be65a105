package broker

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTrusted: root and our own user may get our traffic, and nobody else: not even the user in whose place the kernel shows strangers.
func TestTrusted(t *testing.T) {
	me := uint32(os.Geteuid())
	for uid, want := range map[uint32]bool{0: true, me: me != nobody, me + 1: false, nobody: false} {
		if trusted(uid) != want {
			t.Errorf("user %d: %t", uid, !want)
		}
	}
}

// TestUnbiddenWaitsForNobody: a client that has something else is refused at once while another one has the adapter, however long others would wait.
func TestUnbiddenWaitsForNobody(t *testing.T) {
	path := servePath(t, &Server{Allow: me(), handover: time.Hour, Open: func(Request) (Opened, error) { return newFakeOpened(t), nil }})
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := DialUnbidden(path, good, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = DialUnbidden(path, good, time.Minute)
	wantText(t, "a second client", err, "another process has AF_XDP")
}
