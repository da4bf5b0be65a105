package ndcapture

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/ndxdp/ndxdp/nd"
)

// writer writes packets of one adapter as a section of a pcapng file, which may have several sections.
type writer struct {
	ng       *pcapgo.NgWriter
	comment  []byte
	comments [1]string
	flags    pcapgo.NgEpbFlags
	queue    uint32
}

// frameHeaders is the largest length of the headers in front of an ND packet: Ethernet, a tag, IPv6 and UDP (PROTOCOL §2).
const frameHeaders = 66

// newWriter writes the beginning of the section, which names the interface.
func newWriter(w io.Writer, info nd.DatapathInfo, snap int) (*writer, error) {
	if snap > 0 {
		snap += frameHeaders
	}
	ng, err := pcapgo.NewNgWriterInterface(w, pcapgo.NgInterface{
		Name:        info.Interface,
		Description: fmt.Sprintf("ndxdp, %s datapath, MTU %d, %d queues; packets of the transport, headers made anew", info.Datapath, info.MTU, info.Queues),
		LinkType:    layers.LinkTypeEthernet, SnapLength: uint32(snap), TimestampResolution: 9,
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "ndxdp"}})
	if err != nil {
		return nil, err
	}
	return &writer{ng: ng}, nil
}

// write adds a packet with its comment.
func (w *writer) write(p *nd.CapturedPacket) error {
	w.comment = appendComment(w.comment[:0], p)
	w.comments[0] = string(w.comment)
	w.flags.Direction = pcapgo.NgEpbFlagDirectionInbound
	if p.Sent {
		w.flags.Direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	w.queue = uint32(p.Queue)
	return w.ng.WritePacketWithOptions(
		gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(p.Frame), Length: p.Length}, p.Frame,
		pcapgo.NgPacketOptions{Comments: w.comments[:], Flags: &w.flags, Queue: &w.queue},
	)
}

// appendComment appends the transport's information about a packet, as words for display filters.
func appendComment(b []byte, p *nd.CapturedPacket) []byte {
	if p.Sent {
		b = append(b, "sent"...)
	} else {
		b = append(b, "received"...)
	}
	switch {
	case p.Drop != "":
		b = append(append(b, ", drop "...), p.Drop...)
	case p.Held:
		b = append(b, ", held behind a gap"...)
	}
	if p.CE {
		b = append(b, ", marked CE"...)
	}
	if p.State == "" {
		return append(b, ", no connection"...)
	}
	b = append(b, ", connection "...)
	b = strconv.AppendUint(b, p.ConnectionID, 16)
	return append(append(b, ' '), p.State...)
}

// finish writes the number of packets and all buffered data.
func (w *writer) finish(written, lost uint64) error {
	now := time.Now()
	err := w.ng.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{
		LastUpdate: now, EndTime: now, PacketsReceived: written + lost, PacketsDropped: lost,
	})
	return errors.Join(err, w.ng.Flush())
}
