package verbs

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
)

// If a queue whose sleeper waited for packets is closed, a server that waits for requests becomes the watcher at once. Otherwise
// the next request would wait until the lack of a sleeper is noticed, more than a millisecond later.
func TestClosedQueuesPassTheWatchOn(t *testing.T) {
	a := open(t)
	s := a.Shards[0]
	server := provider.NewWait()
	served := make(chan bool, 1)
	go func() { served <- a.Sleep(server) }()
	testhelp.Eventually(t, "the server's sleep", s.Asleep)
	for range 20 {
		var q CQ
		q.Init(a, 4)
		reader := provider.NewWait()
		read := make(chan bool, 1)
		q.Arm(provider.NotifyAny, reader.Finish)
		go func() { read <- q.Sleep(reader) }()
		testhelp.Eventually(t, "the reader's sleep", func() bool { return s.Holds(reader) && s.Asleep() })
		reader.Finish(provider.OutcomeSuccess)
		<-read
		if q.Close(); s.Left() {
			t.Fatal("no goroutine waits for packets")
		}
		testhelp.Eventually(t, "the server's sleep", s.Asleep)
	}
	server.Finish(provider.OutcomeSuccess)
	<-served
}
