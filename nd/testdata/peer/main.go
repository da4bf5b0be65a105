// Command peer is another process for the tests: one adapter, and a connection to who started it. It grants a MiB of memory, and does
// what lines on its standard input say: "write N" writes so many MiB to the peer's memory, "rest" prints how many KiB are resident when
// the connection is idle, "sum" prints the checksum of its memory.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// side is the process's end of the connection.
type side struct {
	adapter *nd.Adapter
	cq      *nd.CompletionQueue
	qp      *nd.QueuePair
	mr      *nd.MemoryRegion
	conn    *nd.Connector
	granted []byte
}

func run(local, peer, datapath string) error {
	d, err := nd.ParseDatapath(datapath)
	if err != nil {
		return err
	}
	s := &side{}
	if s.adapter, err = nd.OpenAdapter(nd.AdapterConfig{Address: netip.MustParseAddr(local), Datapath: d}); err != nil {
		return err
	}
	if err := s.connect(netip.MustParseAddrPort(peer)); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := s.do(lines.Text()); err != nil {
			return err
		}
	}
	return s.adapter.Close()
}

func (s *side) connect(peer netip.AddrPort) error {
	var err1, err2, err3, err4 error
	s.cq, err1 = s.adapter.CreateCompletionQueue(64)
	s.qp, err2 = s.adapter.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: s.cq, InitiatorCQ: s.cq, InitiatorDepth: 16})
	s.mr, err3 = s.adapter.AllocateMemory(1<<20, nd.MRAllowRemoteWrite)
	s.conn, err4 = s.adapter.CreateConnector()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	grant := binary.BigEndian.AppendUint64(nil, s.mr.Address())
	grant = binary.BigEndian.AppendUint32(grant, uint32(s.mr.RemoteToken()))
	if err := s.conn.Connect(context.Background(), s.qp, peer, nd.ConnectParams{PrivateData: grant}); err != nil {
		return err
	}
	if err := s.conn.CompleteConnect(context.Background()); err != nil {
		return err
	}
	var err error
	s.granted, err = s.conn.PrivateData()
	return err
}

func (s *side) do(line string) error {
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "write":
		n := 0
		if _, err := fmt.Sscan(rest, &n); err != nil {
			return err
		}
		for range n {
			if err := s.write(); err != nil {
				return err
			}
		}
		fmt.Println("written")
	case "rest":
		for !s.adapter.Connections()[0].Resting {
			time.Sleep(time.Millisecond)
		}
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		_, resident, _ := strings.Cut(string(status), "VmRSS:")
		fmt.Println(strings.Fields(resident)[0])
	case "sum":
		fmt.Println(crc32.ChecksumIEEE(s.mr.Bytes()))
	default:
		return fmt.Errorf("%q: no such request", line)
	}
	return nil
}

// write writes the whole region to the memory that the peer granted.
func (s *side) write() error {
	sge := []nd.SGE{s.mr.SGE(0, len(s.mr.Bytes()))}
	if err := s.qp.Write(0, sge, binary.BigEndian.Uint64(s.granted), nd.Token(binary.BigEndian.Uint32(s.granted[8:])), 0); err != nil {
		return err
	}
	var results [1]nd.Result
	for s.cq.GetResults(results[:]) == 0 {
		if err := s.cq.Notify(context.Background(), nd.NotifyAny); err != nil {
			return err
		}
	}
	if results[0].Status != nd.StatusSuccess {
		return results[0].Status
	}
	return nil
}
