package broker

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestUnbiddenWaitsForNobody: a client that would also work without AF_XDP is refused at once while another client has the adapter,
// however long others would wait.
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
	wantText(t, "a second client", err, "another process has the lease of AF_XDP")
}
