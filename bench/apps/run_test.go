package apps

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

func TestMain(m *testing.M) { os.Exit(testhelp.ExitStatus(m.Run())) }

// meeting lets the two sides of a job in one process wait for each other.
type meeting struct {
	mu      sync.Mutex
	point   string
	waiting chan struct{}
}

func (m *meeting) Meet(ctx context.Context, point string) error {
	m.mu.Lock()
	if m.waiting != nil {
		defer m.mu.Unlock()
		if m.point != point {
			return fmt.Errorf("one side is at %q, the other at %q", m.point, point)
		}
		close(m.waiting)
		m.waiting = nil
		return nil
	}
	done := make(chan struct{})
	m.waiting, m.point = done, point
	m.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// collector keeps the results of both sides of programs.
type collector struct {
	bench.Sink
	mu    sync.Mutex
	sides []bench.AppSide
}

func (c *collector) App(s bench.AppSide) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sides = append(c.sides, s)
}

// runBoth runs both sides of a job in this process, requester and responder with the identity of the same index.
func runBoth(t *testing.T, plan bench.AppPlan, own [2]*bench.Identity, port uint16) (*bench.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	job := bench.Job{Kind: bench.KindApps, Datapath: "udp", UDPPort: port, Apps: &plan}
	var ends [2]bench.End
	for i, addr := range []string{"127.0.0.31", "127.0.0.32"} {
		ends[i].Addr = netip.AddrPortFrom(netip.MustParseAddr(addr), port)
	}
	c, m := &collector{}, &meeting{}
	errs := make(chan error, 2)
	for i, role := range []bench.Role{bench.Requester, bench.Responder} {
		j := job
		j.Role, j.Local, j.Peer, j.TLS = role, ends[i], ends[1-i], own[i]
		go func() {
			err := Run(ctx, j, m, c)
			if err != nil {
				cancel()
			}
			errs <- err
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		return nil, err
	}
	r := bench.NewReport()
	for _, s := range plan.Specs {
		var of [2]bench.AppSide
		for _, side := range c.sides {
			if side.Spec == s && side.Role == bench.Requester {
				of[0] = side
			} else if side.Spec == s {
				of[1] = side
			}
		}
		r.AddApp(of[0].Result(plan.Over, false, own[0] != nil), bench.JoinApp(of[0], of[1]))
	}
	return r, nil
}

// specs returns a short measurement of each program.
func specs(encrypted bool) []bench.AppSpec {
	all := bench.AppSpecs([]bench.AppTest{bench.AppEcho, bench.AppHTTP, bench.AppGRPC, bench.AppStream, bench.AppOpen}, 1500, 10*time.Millisecond, time.Second, encrypted)
	for i := range all {
		all[i].Connections = min(all[i].Connections, 16+i)
	}
	return append(all, bench.AppSpec{Test: bench.AppIdle, Connections: 8, Size: 64, Duration: 10 * time.Millisecond})
}

// TestPrograms runs every program over TCP and over ND on plain sockets, plain and encrypted. The figures do not matter. The test checks that there are some,
// and that each operation's bytes were right.
func TestPrograms(t *testing.T) {
	own, err := bench.NewIdentity()
	testhelp.Must(t, err)
	for _, c := range []struct {
		name, over string
		own        *bench.Identity
	}{{"tcp", bench.OverTCP, nil}, {"nd", bench.OverND, nil}, {"tcp, TLS", bench.OverTCP, own}, {"nd, TLS", bench.OverND, own}, {"nd_tls", bench.OverNDTLS, own}} {
		t.Run(c.name, func(t *testing.T) {
			over, specs := c.over, specs(c.own != nil)
			r, err := runBoth(t, bench.AppPlan{Over: over, Specs: specs}, [2]*bench.Identity{c.own, c.own}, netlabtest.FreePort(t))
			testhelp.Must(t, err)
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
			if len(r.Apps) != len(specs) {
				t.Errorf("%d programs of %d have figures", len(r.Apps), len(specs))
			}
			for _, x := range r.Apps {
				if (x.Datapath == "udp") == (over == bench.OverTCP) {
					t.Errorf("%s over %s has the datapath %q", x.Spec(), over, x.Datapath)
				}
				if x.Ops > 0 && x.CPUUS <= 0 {
					t.Errorf("%s over %s took no processor time", x.Spec(), over)
				}
				t.Logf("%s over %s: %+v", x.Spec(), over, x.AppRound)
			}
		})
	}
}

// TestWrongBytesAreSeen flips one byte of a message, and replaces a message by another one.
func TestWrongBytesAreSeen(t *testing.T) {
	msg := make([]byte, 3*stampEvery)
	number(msg, 7)
	if err := numbered(msg, 7); err != nil {
		t.Fatal(err)
	}
	if err := numbered(msg, 8); !errors.Is(err, errWrong) {
		t.Errorf("message 7 passes for message 8: %v", err)
	}
	if err := numbered(append(msg[stampEvery:], msg[:stampEvery]...), 7); !errors.Is(err, errWrong) {
		t.Errorf("bytes that are missing are not missed: %v", err)
	}
	msg[2*stampEvery] ^= 1
	if err := numbered(msg, 7); !errors.Is(err, errWrong) {
		t.Errorf("a byte that changed is not seen: %v", err)
	}
}

// TestEncryptedProgramsRefusePlainOnes: with TLS, neither transport carries bytes of a program without it.
func TestEncryptedProgramsRefusePlainOnes(t *testing.T) {
	own, err := bench.NewIdentity()
	testhelp.Must(t, err)
	for _, over := range []string{bench.OverTCP, bench.OverND, bench.OverNDTLS} {
		plan := bench.AppPlan{Over: over, Specs: []bench.AppSpec{{Test: bench.AppEcho, Connections: 1, Size: 64, Duration: 10 * time.Millisecond}}}
		if _, err := runBoth(t, plan, [2]*bench.Identity{nil, own}, netlabtest.FreePort(t)); err == nil {
			t.Errorf("a plain program meets an encrypted one over %s", over)
		}
	}
}

// TestPeerThatLeavesEndsTheRun: a requester whose peer never listens stops when its context ends.
func TestPeerThatLeavesEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	end := bench.End{Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.31"), netlabtest.FreePort(t))}
	j := bench.Job{
		Kind: bench.KindApps, Role: bench.Requester, Local: end, Peer: end,
		Apps: &bench.AppPlan{Over: bench.OverTCP, Specs: specs(false)[:1]},
	}
	if err := Run(ctx, j, &meeting{}, &collector{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	j.Apps.Specs[0].Test = "teleport"
	if err := Run(t.Context(), j, &meeting{}, &collector{}); err == nil {
		t.Error("an unknown program runs")
	}
}
