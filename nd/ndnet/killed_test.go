package ndnet

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// victimAt is an environment variable with the address, the UDP port and the datapath of a process that a test kills.
const victimAt = "NDNET_TEST_VICTIM"

// noticedWithin bounds the time until the peer of a killed process notices. It is generous, and far below the minute until a silent
// peer counts as dead.
const noticedWithin = 30 * time.Second

// returnNow makes a victim return from main without closing anything.
const returnNow = 'r'

// victim accepts connections and reads until it is killed or told to return.
func victim(t *testing.T, args string) {
	var at, datapath string
	var port uint16
	_, err := fmt.Sscanf(args, "%s %d %s", &at, &port, &datapath)
	must(t, err)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(at), UDPPort: port, Datapath: datapathNamed(datapath)})
	must(t, err)
	n, err := New(a, Config{})
	must(t, err)
	l, err := n.Listen("nd", ":0")
	must(t, err)
	fmt.Println("listening", l.Addr())
	for {
		c, err := l.Accept()
		must(t, err)
		go func() {
			for r := bufio.NewReader(c); ; {
				switch b, err := r.ReadByte(); {
				case err != nil:
					return
				case b == returnNow:
					os.Exit(0) // like a return from main
				}
			}
		}()
	}
}

func datapathNamed(name string) nd.Datapath {
	for _, d := range killedDatapaths {
		if d.String() == name {
			return d
		}
	}
	return nd.DatapathAuto
}

var killedDatapaths = []nd.Datapath{nd.DatapathUDP, nd.DatapathRing, nd.DatapathGeneric, nd.DatapathAuto}

// startVictim starts a victim and connects to it from n.
func startVictim(t *testing.T, start func(*exec.Cmd) error, n *Network, at netip.Addr, port uint16, d nd.Datapath) (c *Conn, kill func()) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+name+"$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", victimAt, at, port, d))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, start(cmd))
	kill = sync.OnceFunc(func() { // called by a timer, and at the end of the test
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it returns an error, because the process was killed
	})
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	to := ""
	for to == "" && lines.Scan() {
		to, _ = strings.CutPrefix(lines.Text(), "listening ")
	}
	dialed, err := n.DialContext(t.Context(), "nd", to)
	must(t, err)
	t.Cleanup(func() { dialed.Close() })
	_, err = dialed.Write([]byte("hello"))
	must(t, err)
	return dialed.(*Conn), kill
}

// noticed checks that a connection was reset soon after begin.
func noticed(t *testing.T, begin time.Time, err error) {
	t.Helper()
	if took := time.Since(begin); took > noticedWithin || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after %v: %v, want %v within %v", took, err, syscall.ECONNRESET, noticedWithin)
	}
}

// killEach kills the peer in three situations: while a connection writes, while it waits in Read with keep-alives, and before its
// first Write after an idle period.
func killEach(t *testing.T, start func(*exec.Cmd) error, n *Network, at netip.Addr, port uint16, d nd.Datapath) {
	t.Run("writing", func(t *testing.T) {
		c, kill := startVictim(t, start, n, at, port, d)
		piece := make([]byte, 64<<10)
		for range 100 {
			_, err := c.Write(piece)
			must(t, err)
		}
		var err error
		kill()
		for begin := time.Now(); ; {
			must(t, c.SetWriteDeadline(begin.Add(patience)))
			if _, err = c.Write(piece); err != nil {
				noticed(t, begin, err)
				break
			}
		}
	})
	t.Run("reading", func(t *testing.T) {
		c, kill := startVictim(t, start, n, at, port, d)
		must(t, c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 100 * time.Millisecond}))
		time.AfterFunc(100*time.Millisecond, kill)
		begin := time.Now()
		must(t, c.SetReadDeadline(begin.Add(patience)))
		_, err := c.Read(make([]byte, 1))
		noticed(t, begin, err)
	})
	t.Run("idle", func(t *testing.T) {
		c, kill := startVictim(t, start, n, at, port, d)
		time.Sleep(1500 * time.Millisecond) // until the connection is idle and has released its traffic state (Config.IdleAfter of package provider)
		kill()
		begin := time.Now()
		must(t, c.SetReadDeadline(begin.Add(patience)))
		_, err := c.Write([]byte("x"))
		must(t, err) // the death is not known yet
		_, err = c.Read(make([]byte, 1))
		noticed(t, begin, err)
	})
}

// The peer of a killed process notices soon. Over plain sockets that needs no privilege, because the kernel reports that the UDP
// port is closed.
func TestKilledPeerIsNoticed(t *testing.T) {
	if args := os.Getenv(victimAt); args != "" {
		victim(t, args)
		return
	}
	at, port := netlabtest.Loopback(), netlabtest.FreePort(t)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: at[0], UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
	must(t, err)
	defer func() { must(t, a.Close()) }()
	n, err := New(a, Config{})
	must(t, err)
	killEach(t, (*exec.Cmd).Start, n, at[1], port, nd.DatapathUDP)
}

// A process that returns from main without closing anything is like a killed one: a peer that sends notices soon, and an idle peer
// notices with its next keep-alive.
func TestReturnWithoutCloseIsNoticed(t *testing.T) {
	if args := os.Getenv(victimAt); args != "" {
		victim(t, args)
		return
	}
	for name, peer := range map[string]func(c *Conn) error{
		"sends": func(c *Conn) (err error) {
			for err == nil {
				_, err = c.Write(make([]byte, 1000))
			}
			return err
		},
		"is idle": func(c *Conn) error {
			must(t, c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 100 * time.Millisecond}))
			_, err := c.Read(make([]byte, 1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, port := netlabtest.Loopback(), netlabtest.FreePort(t)
			a, err := nd.OpenAdapter(nd.AdapterConfig{Address: at[0], UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
			must(t, err)
			defer func() { must(t, a.Close()) }()
			n, err := New(a, Config{})
			must(t, err)
			c, _ := startVictim(t, (*exec.Cmd).Start, n, at[1], port, nd.DatapathUDP)
			_, err = c.Write([]byte{returnNow})
			must(t, err)
			begin := time.Now()
			must(t, c.SetDeadline(begin.Add(patience)))
			noticed(t, begin, peer(c))
		})
	}
}

// The peer of an idle connection notices by the keep-alives that are on by default. The first one is sent after 10 idle seconds.
func TestKilledPeerOfAnIdleConnectionIsNoticed(t *testing.T) {
	if args := os.Getenv(victimAt); args != "" {
		victim(t, args)
		return
	}
	t.Parallel()
	at, port := netlabtest.Loopback(), netlabtest.FreePort(t)
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: at[0], UDPPort: port, Datapath: nd.DatapathUDP, PeerTimeout: peerTimeout})
	must(t, err)
	defer func() { must(t, a.Close()) }()
	n, err := New(a, Config{})
	must(t, err)
	c, kill := startVictim(t, (*exec.Cmd).Start, n, at[1], port, nd.DatapathUDP)
	time.Sleep(1500 * time.Millisecond) // written data have arrived
	kill()
	begin := time.Now()
	must(t, c.SetReadDeadline(begin.Add(patience)))
	_, err = c.Read(make([]byte, 1))
	noticed(t, begin, err)
}

// The peer of a killed process notices on each datapath over a network, also if the host limits its ICMP errors to one a second,
// which is the default of Linux.
func TestKilledPeerIsNoticedOverEachDatapath(t *testing.T) {
	if args := os.Getenv(victimAt); args != "" {
		victim(t, args)
		return
	}
	for _, ipv6 := range []bool{false, true} {
		for _, d := range killedDatapaths {
			t.Run(fmt.Sprintf("%s ipv6 %t", d, ipv6), func(t *testing.T) {
				pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: ipv6})
				at := [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}
				if ipv6 {
					at = [2]netip.Addr{pair.Addr6A.Addr(), pair.Addr6B.Addr()}
				}
				var a *nd.Adapter
				must(t, pair.A.Do(func() (err error) {
					a, err = nd.OpenAdapter(nd.AdapterConfig{Address: at[0], Datapath: d, PeerTimeout: peerTimeout})
					return err
				}))
				defer func() { must(t, a.Close()) }()
				n, err := New(a, Config{})
				must(t, err)
				killEach(t, pair.B.StartProcess, n, at[1], nd.DefaultUDPPort, d)
			})
		}
	}
}
