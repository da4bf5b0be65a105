package bench

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// TestRawSurvivesLosses: raw packets are not reliable. But a ping-pong continues after a loss, the end of a stream arrives, and the
// figures report the losses. Packets are lost on busy machines without any impairment.
func TestRawSurvivesLosses(t *testing.T) {
	star := netlabtest.Star(t, netlab.StarConfig{})
	job := Job{Kind: KindRaw, UDPPort: nd.DefaultUDPPort}
	for i, e := range []*End{&job.Local, &job.Peer} {
		h := &star.Hosts[i]
		*e = End{Addr: netip.AddrPortFrom(h.Addr.Addr(), 9000), Interface: h.Name, Ifindex: h.Ifindex}
		var p *impair.Impairment
		err := star.Router.Do(func() error {
			// Packets from the peer go to the router first, to the port of the peer.
			port, err := netlink.LinkByName(star.Hosts[1-i].Port)
			if err != nil {
				return err
			}
			e.MAC = port.Attrs().HardwareAddr.String()
			p, err = impair.Attach(h.PortIfindex, job.UDPPort)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := star.Router.Do(p.Close); err != nil {
				t.Error(err)
			}
		})
		if err := p.Set(impair.Config{Seed: uint64(i), Loss: 0.3}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		job.Specs = append(job.Specs, Spec{Test: WriteLat, MTU: 1500, Duration: 50 * time.Millisecond},
			Spec{Test: WriteBW, Size: 4096, MTU: 1500, Duration: 50 * time.Millisecond})
	}
	got := runBoth(t, job, star.Hosts[0].NS.Do, star.Hosts[1].NS.Do)
	if len(got.baselines) != len(job.Specs) {
		t.Fatalf("%d baselines of %d", len(got.baselines), len(job.Specs))
	}
	for _, b := range got.baselines {
		if b.Ops == 0 || b.Test == WriteBW && !strings.Contains(b.Note, "packets were lost") {
			t.Errorf("%+v", b)
		}
		t.Logf("%s: %d in %.2f s, %s", b.Test, b.Ops, b.Seconds, b.Note)
	}
}

// TestEndWaitsForItsAnswer: a sender repeats that it stops until the receiver confirms it, whatever else the receiver sent before. The
// receiver's second "enough" must not count as this confirmation, because the end packet may have been lost.
func TestEndWaitsForItsAnswer(t *testing.T) {
	const id, ignored = 7, 3
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pair, job := newPair(t, netlab.PairConfig{MTU: 1500})
	open := func(j Job, in func(func() error) error) *rawRun {
		var l *rawLink
		must(in(func() (err error) {
			l, err = openRaw(j, 1500)
			return err
		}))
		t.Cleanup(func() { must(l.close()) })
		return &rawRun{ctx: t.Context(), link: l, id: id, deadline: time.Now().Add(time.Minute)}
	}
	receiving := job
	receiving.Local, receiving.Peer = job.Peer, job.Local
	sender, receiver := open(job, pair.A.Do), open(receiving, pair.B.Do)
	for range 2 {
		receiver.link.push(rawEnough, id, nil)
	}
	must(receiver.link.flush())
	ended := make(chan error, 1)
	go func() { ended <- sender.end() }()
	for heard := 0; heard < ignored; must(receiver.spin()) {
		descs := receiver.link.receive()
		if receiver.endIn(descs) {
			heard++
		}
		receiver.link.recycle(descs)
		select {
		case err := <-ended:
			t.Fatalf("the sender stopped (%v) after %d ends that nobody answered", err, heard)
		default:
		}
	}
	must(receiver.answerEnd())
	must(<-ended)
}
