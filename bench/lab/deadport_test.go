package lab

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/impair"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/wire"
)

// A connection whose source port leads to a dead path continues from another port, on every datapath and in both directions. The router
// drops all packets from one source port, as if a hash of the ports had chosen a dead path. On AF_XDP it also shows that the steering
// program does not check source ports.
func TestDeadSourcePort(t *testing.T) {
	for name, s := range map[string]setup{
		"generic": {}, "generic, IPv6": {ipv6: true}, "native": {datapath: nd.DatapathNative}, "plain": {datapath: nd.DatapathUDP},
	} {
		for where, dead := range map[string][2]bool{"there": {0: true}, "back": {1: true}, "both": {true, true}} {
			t.Run(name+", "+where, func(t *testing.T) {
				r := newRig(t, s)
				from, to := r.connect(t, 1, 64<<10, 4)
				write := func() {
					must(t, from.qp.Write(1, []nd.SGE{from.mr.SGE(0, 64<<10)}, to.mr.Address(), to.mr.RemoteToken(), 0))
					from.await(t, 1)
				}
				write()
				for i, on := range dead { // the port from which host 1-i sends to host i
					if on {
						id := r.adapters[1-i].Connections()[0].ID
						r.kill(t, i, wire.SourcePort(id))
					}
				}
				write()
				write()
				var changed [2]uint64
				for i, a := range r.adapters {
					st := a.Stats()
					if changed[i] = st.Paths.PortsChanged; st.Connections.Lost != 0 {
						t.Errorf("host %d lost its connection", i)
					}
				}
				if dead[0] && changed[1] == 0 || dead[1] && changed[0] == 0 {
					t.Errorf("hosts changed their ports %d times", changed)
				}
				t.Logf("%d time-outs, hosts changed their ports %d times", r.stats().Recovery.Timeouts, changed)
			})
		}
	}
}

// kill makes the router drop packets to a host from a source port.
func (r *rig) kill(t *testing.T, host int, port uint16) {
	t.Helper()
	var p *impair.Impairment
	must(t, r.star.Router.Do(func() (err error) {
		p, err = impair.Attach(r.star.Hosts[host].PortIfindex, udpPort)
		return err
	}))
	t.Cleanup(func() { must(t, r.star.Router.Do(p.Close)) })
	must(t, p.Set(impairments{DeadPort: port}))
}
