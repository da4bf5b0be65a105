package nd

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/buildinfo"
	"github.com/ndxdp/ndxdp/internal/inspect"
	"github.com/ndxdp/ndxdp/provider"
)

// InspectOff as AdapterConfig.Inspect makes no inspection socket.
const InspectOff = "off"

// inspection is the socket through which other processes inspect an adapter.
type inspection struct {
	server    *inspect.Server // nil if there is no socket
	namespace uint64          // network namespace of the adapter
	fault     error           // why there is no socket
}

// Inspection returns the path of the socket through which other processes inspect the adapter. The error says why
// there is none.
func (a *Adapter) Inspection() (path string, err error) {
	if a.server == nil {
		return "", &Error{Op: "inspect", Status: ErrInsufficientResources, Err: a.fault}
	}
	return a.server.Path(), nil
}

// inspected makes the socket. If the caller did not ask for a path, a socket that cannot be made is no failure.
func (a *Adapter) inspected(path string) error {
	if path == InspectOff {
		a.fault = fmt.Errorf("AdapterConfig.Inspect is %q, which opens no socket for inspection", InspectOff)
		return nil
	}
	a.namespace = inspect.Namespace()
	a.server, a.fault = inspect.Serve(inspected{a}, path)
	if path != "" {
		return a.fault
	}
	return nil
}

func (a *Adapter) closeInspection() error {
	if a.server == nil {
		return nil
	}
	return a.server.Close()
}

// inspected answers inspection requests for an adapter.
type inspected struct{ a *Adapter }

// inspectReply mirrors ndinspect.Reply, which documents the fields.
type inspectReply struct {
	inspect.Head
	Build       buildinfo.Info   `json:"build"`
	Adapter     netip.Addr       `json:"adapter"`
	Namespace   uint64           `json:"network_namespace"`
	Interface   string           `json:"interface"`
	Driver      string           `json:"driver"`
	MTU         int              `json:"mtu"`
	Queues      int              `json:"queues"`
	Datapath    string           `json:"datapath"`
	Reason      string           `json:"reason"`
	ZeroCopy    bool             `json:"zero_copy"`
	Copying     string           `json:"copying,omitempty"`
	Apart       string           `json:"apart,omitempty"`
	BulkPort    uint16           `json:"bulk_port,omitempty"`
	NoBulk      string           `json:"no_bulk,omitempty"`
	Capturing   bool             `json:"capturing,omitempty"`
	Stats       Stats            `json:"stats"`
	Connections []ConnectionInfo `json:"connections"`
	Truncated   bool             `json:"truncated,omitempty"`
	Flight      string           `json:"flight,omitempty"`
}

// Answer implements inspect.Adapter.
func (i inspected) Answer(h inspect.Head, q inspect.Request) any {
	a, d := i.a, i.a.Datapath()
	r := inspectReply{
		Head: h, Build: buildinfo.Read(), Adapter: a.verbs.Addr, Namespace: a.namespace, Interface: d.Interface, Driver: d.Driver, MTU: d.MTU, Queues: d.Queues, Datapath: d.Datapath.String(),
		Reason: d.Reason, ZeroCopy: d.ZeroCopy, Copying: d.Copying, Apart: d.Apart, BulkPort: d.BulkPort, NoBulk: d.NoBulk, Capturing: a.Capturing(), Stats: a.Stats(),
		Connections: []ConnectionInfo{},
	}
	for _, c := range a.Connections() {
		if q.Peer.IsValid() && c.Remote.Addr() != q.Peer.Unmap() {
			continue
		}
		if r.Truncated = len(r.Connections) == inspect.MaxConnections; r.Truncated {
			break
		}
		r.Connections = append(r.Connections, c)
	}
	if q.Flight {
		r.Flight = a.flights()
	}
	return r
}

// flights returns the readable text of the flight recorders of the adapter's engines.
func (a *Adapter) flights() string {
	var text bytes.Buffer
	for i, shard := range a.verbs.Shards {
		var r provider.FlightRecord
		shard.Do(func(e *provider.Engine) { r = e.FlightRecord() })
		fmt.Fprintf(&text, "receive queue %d: ", i)
		_, _ = r.WriteTo(&text) // never fails (package bytes)
	}
	return text.String()
}

// Capture implements inspect.Adapter.
func (i inspected) Capture(snap int) (inspect.Capture, error) {
	c, err := i.a.StartCapture(CaptureConfig{SnapLength: snap})
	if err != nil {
		return nil, err
	}
	return &tapped{Capture: c}, nil
}

// tapped turns the packets of a capture into records.
type tapped struct {
	*Capture
	packet CapturedPacket // the packet that Next returned last
}

// Next implements inspect.Capture.
func (t *tapped) Next(b []byte) ([]byte, error) {
	if err := t.Capture.Next(&t.packet); err != nil {
		return b, err
	}
	r := inspect.Record(t.packet)
	return r.Append(b), nil
}
