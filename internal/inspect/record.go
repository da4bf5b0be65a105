package inspect

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Record is a captured packet, with the fields of nd.CapturedPacket.
type Record struct {
	Time         time.Time
	Queue        int
	Sent, CE     bool
	Drop         string
	Held         bool
	ConnectionID uint64
	State        string
	Frame        []byte
	Length       int
}

// The layout of a record: its length without these four bytes, a fixed part, then texts and frame.
const (
	recordLength = 4
	recordFixed  = 8 + 4 + 1 + 1 + 1 + 8 + 4
	maxRecord    = recordFixed + 2*255 + 1<<17 // room for twice a packet of 64 KiB
)

const (
	flagSent = 1 << iota
	flagCE
	flagHeld
)

// Append appends a record. Texts are truncated to 255 bytes.
func (r *Record) Append(b []byte) []byte {
	drop, state := r.Drop[:min(len(r.Drop), 255)], r.State[:min(len(r.State), 255)]
	flags := byte(0)
	for i, set := range []bool{r.Sent, r.CE, r.Held} {
		if set {
			flags |= 1 << i
		}
	}
	b = binary.BigEndian.AppendUint32(b, uint32(recordFixed+len(drop)+len(state)+len(r.Frame)))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time.UnixNano()))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Queue))
	b = append(b, flags, byte(len(drop)), byte(len(state)))
	b = binary.BigEndian.AppendUint64(b, r.ConnectionID)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Length))
	return append(append(append(b, drop...), state...), r.Frame...)
}

// Read reads a record into r, whose Frame is reused. It returns io.EOF at the end.
func (r *Record) Read(in *bufio.Reader) error {
	var head [recordLength + recordFixed]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	fixed := head[recordLength:]
	drop, state := int(fixed[13]), int(fixed[14])
	frame := int64(binary.BigEndian.Uint32(head[:])) - int64(recordFixed+drop+state)
	if frame < 0 || frame > maxRecord {
		return fmt.Errorf("a record has a frame of %d bytes, and 0 to %d are allowed", frame, maxRecord)
	}
	rest := r.Frame[:0]
	if n := drop + state + int(frame); cap(rest) < n {
		rest = make([]byte, n)
	} else {
		rest = rest[:n]
	}
	if _, err := io.ReadFull(in, rest); err != nil {
		return fmt.Errorf("a record is not complete: %w", io.ErrUnexpectedEOF)
	}
	flags := fixed[12]
	*r = Record{
		Time: time.Unix(0, int64(binary.BigEndian.Uint64(fixed))), Queue: int(binary.BigEndian.Uint32(fixed[8:])),
		Sent: flags&flagSent != 0, CE: flags&flagCE != 0, Held: flags&flagHeld != 0,
		ConnectionID: binary.BigEndian.Uint64(fixed[15:]), Length: int(binary.BigEndian.Uint32(fixed[23:])),
		Drop: string(rest[:drop]), State: string(rest[drop : drop+state]), Frame: rest[drop+state:],
	}
	return nil
}
