package nd

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// process is testdata/peer, running at the other end of a connection over a veth pair.
type process struct {
	*end    // ours
	adapter *Adapter
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   *bufio.Scanner
	granted []byte // address and token of its memory, a MiB
}

// buildProcess builds testdata/peer.
func buildProcess(t *testing.T) (program string) {
	t.Helper()
	netlabtest.NeedRoot(t)
	program = filepath.Join(t.TempDir(), "peer")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/peer").CombinedOutput(); err != nil {
		t.Fatalf("build the process: %v\n%s", err, out)
	}
	return program
}

// startProcess starts it, and connects.
func startProcess(t *testing.T, program string, datapath Datapath, mtu int) *process {
	t.Helper()
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: mtu})
	p := &process{adapter: openIn(t, pair.B, AdapterConfig{Address: pair.AddrB.Addr(), Datapath: datapath})}
	l, at := listen(t, p.adapter, 1)
	p.cmd = exec.CommandContext(t.Context(), program, pair.AddrA.Addr().String(), at.String(), datapath.String())
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	must(t, err)
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	p.lines = bufio.NewScanner(out)
	must(t, pair.A.StartProcess(p.cmd))
	p.end = newEnd(t, p.adapter, 1<<20)
	must(t, l.GetConnectionRequest(t.Context(), p.ctr))
	p.granted, err = p.ctr.PrivateData()
	must(t, err)
	grant := binary.BigEndian.AppendUint64(nil, p.mr.Address())
	must(t, p.ctr.Accept(t.Context(), p.qp, ConnectParams{PrivateData: binary.BigEndian.AppendUint32(grant, uint32(p.mr.RemoteToken()))}))
	return p
}

// ask says a line to it and returns what it answers.
func (p *process) ask(t *testing.T, line string) string {
	t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	must(t, err)
	if !p.lines.Scan() {
		t.Fatalf("%s: the process says nothing: %v", line, p.lines.Err())
	}
	return p.lines.Text()
}

// finish lets it end.
func (p *process) finish(t *testing.T) {
	t.Helper()
	must(t, p.in.Close())
	must(t, p.cmd.Wait())
}
