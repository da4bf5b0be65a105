package ndcapture

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// writer writes packets of one adapter as a section of a pcapng file, which may have several sections.
type writer struct {
	to      io.Writer
	block   block
	comment []byte
}

// frameHeaders is the largest length of the headers in front of an ND packet: Ethernet, a tag, IPv6 and UDP (PROTOCOL §2).
const frameHeaders = 66

// newWriter writes the beginning of the section, which names the interface.
func newWriter(to io.Writer, info nd.DatapathInfo, snap int) (*writer, error) {
	if snap > 0 {
		snap += frameHeaders
	}
	w := &writer{to: to}
	w.block = w.block.begin(sectionBlock).words(byteOrder, version, lengthUnknown, lengthUnknown).option(sectionProgram, []byte("ndxdp"))
	if err := w.end(); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("ndxdp, %s datapath, MTU %d, %d queues; packets of the transport, headers made anew", info.Datapath, info.MTU, info.Queues)
	w.block = w.block.begin(interfaceBlock).words(linkEthernet, uint32(snap)).option(interfaceName, []byte(info.Interface)).
		option(interfaceText, []byte(text)).option(interfaceTime, []byte{nanoseconds})
	return w, w.end()
}

// end writes the block.
func (w *writer) end() error {
	w.block = w.block.end()
	_, err := w.to.Write(w.block)
	return err
}

// write adds a packet with its comment.
func (w *writer) write(p *nd.CapturedPacket) error {
	if p.Length < len(p.Frame) {
		return fmt.Errorf("ndcapture: a captured packet of %d bytes has a frame of %d bytes", p.Length, len(p.Frame))
	}
	w.comment = appendComment(w.comment[:0], p)
	upper, lower := timestamp(p.Time)
	var flags, queue [4]byte
	flags[0] = inbound
	if p.Sent {
		flags[0] = outbound
	}
	binary.LittleEndian.PutUint32(queue[:], uint32(p.Queue))
	w.block = w.block.begin(packetBlock).words(interfaceID, upper, lower, uint32(len(p.Frame)), uint32(p.Length)).padded(p.Frame).
		option(optionComment, w.comment).option(packetFlags, flags[:]).option(packetQueue, queue[:])
	return w.end()
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

// finish writes the number of packets.
func (w *writer) finish(written, lost uint64) error {
	now := time.Now()
	upper, lower := timestamp(now)
	w.block = w.block.begin(statisticsBlock).words(interfaceID, upper, lower).
		time(statisticsEnd, now).number(statisticsPackets, written+lost).number(statisticsLost, lost)
	return w.end()
}
