package nd

import (
	"fmt"
	"strings"
)

// String describes the datapath in one line.
func (i DatapathInfo) String() string {
	s := fmt.Sprintf("%s (driver %s, MTU %d, receive queues %d): datapath %s, %s", i.Interface, i.Driver, i.MTU, i.Queues, i.Datapath, i.Reason)
	if i.ZeroCopy {
		s += ", zero-copy"
	}
	if i.BulkPort != 0 {
		s += fmt.Sprintf(", bulk path on UDP port %d", i.BulkPort)
	}
	return s
}

// String describes the connection in one line.
func (c ConnectionInfo) String() string {
	return fmt.Sprintf("%s->%s %s, age %s, RTT %s, path MTU %d, in flight %d of %d packets, retransmits %d, limited by %s",
		c.Local, c.Remote, c.State, c.Age, c.SmoothedRTT, c.PathMTU, c.InFlight, c.Window, c.Retransmits, c.LimitedBy)
}

// String describes the result in one line.
func (r Result) String() string {
	s := fmt.Sprintf("%s %d: %s", r.Type, r.RequestID, r.Status)
	if r.Type == RequestReceive && r.Status == StatusSuccess {
		s += fmt.Sprintf(", %d bytes", r.Bytes)
	}
	return s
}

// String describes the memory without its token, which grants access to it.
func (m RemoteMemory) String() string { return fmt.Sprintf("%d bytes at %#x", m.Length, m.Address) }

// String describes the slice without its contents and its token.
func (s SGE) String() string { return fmt.Sprintf("%d bytes", len(s.Buffer)) }

// String names the event.
func (n NotifyType) String() string {
	if names := [...]string{"errors", "any", "solicited"}; int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("unknown event %d", uint8(n))
}

// flagName is a flag and its name.
type flagName[F ~uint32] struct {
	flag F
	name string
}

// flagNames joins the names of flags. The rest is a number.
func flagNames[F ~uint32](f F, names []flagName[F]) string {
	var set []string
	for _, n := range names {
		if f&n.flag == n.flag {
			set, f = append(set, n.name), f&^n.flag
		}
	}
	if f != 0 || len(set) == 0 {
		set = append(set, fmt.Sprintf("%#x", uint32(f)))
	}
	return strings.Join(set, "|")
}

// String names the flags.
func (f AdapterFlags) String() string {
	return flagNames(f, []flagName[AdapterFlags]{
		{AdapterInOrderDMA, "in-order DMA"},
		{AdapterCQModeration, "CQ moderation"},
		{AdapterCQResize, "CQ resize"},
		{AdapterLoopbackConnections, "loopback connections"},
	})
}

// String names the rights.
func (f MRFlags) String() string {
	return flagNames(f, []flagName[MRFlags]{ // remote write includes local write
		{MRAllowRemoteWrite, "remote write"},
		{MRAllowLocalWrite, "local write"},
		{MRAllowRemoteRead, "remote read"},
		{MRReadSink, "read sink"},
		{MRDoNotSecureVM, "do not secure VM"},
	})
}

// String names the flags.
func (f OpFlags) String() string {
	return flagNames(f, []flagName[OpFlags]{
		{OpSilentSuccess, "silent success"},
		{OpReadFence, "read fence"},
		{OpSolicit, "solicit"},
		{OpAllowRead, "allow read"},
		{OpAllowWrite, "allow write"},
		{OpInline, "inline"},
		{OpDefer, "defer"},
		{OpAnswered, "answered"},
	})
}
