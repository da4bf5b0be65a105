package nd

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// EndpointConfig describes the endpoints that Dial and Listen make. The zero value is useful.
type EndpointConfig struct {
	// Adapter is the adapter to use. If it is nil, Dial and Listen open one with Datapath, UDPPort and Broker as in AdapterConfig.
	Adapter  *Adapter
	Datapath Datapath
	UDPPort  uint16
	Broker   string
	// MemoryBytes is how much memory an endpoint has; 0 is 1 MiB. Rights are the peer's rights to it; receiving into it is always
	// allowed.
	MemoryBytes int
	Rights      MRFlags
	// Depth is how many requests may be outstanding, in each direction; 0 is 64.
	Depth int
	// MessageBytes is the length of the longest message of Endpoint.Send and Endpoint.Receive, 1 to MaxMessage; 0 is 64 KiB. Both ends use
	// the same value: a message that is longer than the peer's ends the connection. The first Receive of an endpoint, and its first
	// longer Send, Read or Write, allocate 16 times as much.
	MessageBytes int
	// Greeting is sent to the peer when connecting: at most MaxGreeting bytes.
	Greeting []byte
	// TLS encrypts connections: Dial uses it as Connector.UseTLS does, and Listen as Listener.UseTLS does. nil is without encryption.
	// Listen refuses connections that are not encrypted, unless AllowPlain is set.
	TLS        *tls.Config
	AllowPlain bool // Listen only
	// EstablishTimeout is how long a client may take to complete after EndpointListener.Accept has accepted it; 0 is 5 s. A Connector has
	// no such time-out, because its application may need time to decide; Dial completes at once.
	EstablishTimeout time.Duration
}

// MaxGreeting is the longest EndpointConfig.Greeting: the private data, less the description of an endpoint's memory.
const MaxGreeting = 492

// introLen is the length of the address, token and size of an endpoint's memory, which precede its greeting.
const introLen = 8 + 4 + 8

// MaxMessage is the largest EndpointConfig.MessageBytes. Longer data go by Endpoint.Write and Endpoint.Read.
const MaxMessage = 1 << 20

const (
	defaultDepth  = 64
	defaultMemory = 1 << 20
)

// RemoteMemory describes the peer's memory for Read and Write.
type RemoteMemory struct {
	Address uint64
	Token   Token
	Length  uint64 // bytes
}

// Endpoint is a connection. Dial and EndpointListener.Accept make endpoints. All methods may be called from any goroutine, and several
// calls may wait at a time.
//
// Send, Receive, Read and Write block, take a context, and work on any slice of bytes. For more control, post requests to QueuePair and call
// Result: the fields are the objects that an endpoint consists of. Both ways may be mixed with two limits. A program that calls Receive
// does not call QueuePair.Receive. While a blocking call runs, results come from Result and not from Queue.GetResults, and the identifiers
// of posted requests are below 1<<63.
type Endpoint struct {
	Adapter   *Adapter
	Queue     *CompletionQueue // results of both directions
	QueuePair *QueuePair
	Connector *Connector
	Memory    *MemoryRegion

	Peer     RemoteMemory // the peer's memory, with the rights that the peer granted
	Greeting []byte       // the peer's greeting

	owned    *Adapter // the adapter that Close closes; nil if the caller owns it
	end      connectionEnd
	dispatch dispatcher
}

// newEndpoint makes the objects of an endpoint on an adapter.
func newEndpoint(a *Adapter, cfg EndpointConfig) (_ *Endpoint, err error) {
	e := &Endpoint{Adapter: a}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	depth, size, message := cmp.Or(cfg.Depth, defaultDepth), cmp.Or(cfg.MemoryBytes, defaultMemory), cmp.Or(cfg.MessageBytes, defaultMessage)
	if message < 0 || message > MaxMessage {
		return nil, &Error{Op: "make an endpoint", Status: ErrInvalidParameter, Err: fmt.Errorf(
			"EndpointConfig.MessageBytes is %d, want 1 to %d, or 0", message, MaxMessage)}
	}
	e.dispatch.init(message, depth)
	if e.Queue, err = a.CreateCompletionQueue(2 * max(depth, 1)); err != nil {
		return nil, err
	}
	if e.QueuePair, err = a.CreateQueuePair(QueuePairConfig{
		ReceiveCQ: e.Queue, InitiatorCQ: e.Queue, ReceiveDepth: depth, InitiatorDepth: depth, InlineSize: maxInline,
	}); err != nil {
		return nil, err
	}
	if e.Memory, err = a.AllocateMemory(size, cfg.Rights|MRAllowLocalWrite); err != nil {
		return nil, err
	}
	if e.Connector, err = a.CreateConnector(); err != nil {
		return nil, err
	}
	return e, nil
}

// params are the connection parameters that an endpoint sends to its peer.
func (e *Endpoint) params(greeting []byte) ConnectParams {
	own := RemoteMemory{Address: e.Memory.Address(), Token: e.Memory.RemoteToken(), Length: uint64(len(e.Memory.Bytes()))}
	return ConnectParams{
		InboundReadLimit: maxReadLimit, OutboundReadLimit: maxReadLimit,
		PrivateData: appendIntro(make([]byte, 0, introLen+len(greeting)), own, greeting),
	}
}

// learn parses the peer's private data. It refuses a peer that is not an endpoint.
func (e *Endpoint) learn() error {
	data, err := e.Connector.PrivateData()
	if err != nil {
		return err
	}
	var ok bool
	if e.Peer, e.Greeting, ok = parseIntro(data); !ok {
		return errors.Join(&Error{Op: "meet an endpoint", Status: ErrInvalidBufferSize}, e.Connector.Reject(nil))
	}
	return nil
}

// appendIntro appends the private data of an endpoint.
func appendIntro(data []byte, m RemoteMemory, greeting []byte) []byte {
	data = binary.BigEndian.AppendUint64(data, m.Address)
	data = binary.BigEndian.AppendUint32(data, uint32(m.Token))
	data = binary.BigEndian.AppendUint64(data, m.Length)
	return append(data, greeting...)
}

// parseIntro is the reverse of appendIntro. It reports false if the data are too short for an endpoint.
func parseIntro(data []byte) (m RemoteMemory, greeting []byte, ok bool) {
	if len(data) < introLen {
		return m, nil, false
	}
	m = RemoteMemory{
		Address: binary.BigEndian.Uint64(data), Token: Token(binary.BigEndian.Uint32(data[8:])), Length: binary.BigEndian.Uint64(data[12:]),
	}
	return m, data[introLen:], true
}

// Dial connects to a program that waits in EndpointListener.Accept at remote, an ND address. Without cfg.Adapter it opens an adapter on
// the kernel's source address for remote.
//
// Errors: those of Provider.SourceAddress, OpenAdapter, the Create methods, Connector.UseTLS, Connect and CompleteConnect;
// ErrInvalidParameter for a MessageBytes out of range; ErrInvalidBufferSize if the peer is not an endpoint.
func Dial(ctx context.Context, remote netip.AddrPort, cfg EndpointConfig) (_ *Endpoint, err error) {
	if err := checkContext("dial", ctx); err != nil {
		return nil, err
	}
	a, owned := cfg.Adapter, (*Adapter)(nil)
	if a == nil {
		if a, err = openTowards(remote.Addr(), cfg); err != nil {
			return nil, err
		}
		owned = a
	}
	e, err := newEndpoint(a, cfg)
	if err != nil {
		return nil, errors.Join(err, closeAdapter(owned))
	}
	e.owned = owned
	if cfg.TLS != nil {
		err = e.Connector.UseTLS(cfg.TLS)
	}
	if err == nil {
		err = e.Connector.Connect(ctx, e.QueuePair, remote, e.params(cfg.Greeting))
	}
	if err == nil {
		err = e.learn()
	}
	if err == nil {
		err = e.Connector.CompleteConnect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.watchEnd()
	return e, nil
}

// adapter is the configuration of the adapter to open on an address.
func (c *EndpointConfig) adapter(local netip.Addr) AdapterConfig {
	return AdapterConfig{Address: local, Datapath: c.Datapath, UDPPort: c.UDPPort, Broker: c.Broker}
}

// openTowards opens the adapter from which the host routes to remote.
func openTowards(remote netip.Addr, cfg EndpointConfig) (*Adapter, error) {
	p, err := OpenProvider()
	if err != nil {
		return nil, err
	}
	src, err := p.SourceAddress(remote)
	if err := errors.Join(err, p.Close()); err != nil {
		return nil, err
	}
	return OpenAdapter(cfg.adapter(src))
}

func closeAdapter(a *Adapter) error {
	if a == nil {
		return nil
	}
	return a.Close()
}

// Disconnect ends the connection gracefully: it waits until both sides have called it, and closes the endpoint.
func (e *Endpoint) Disconnect(ctx context.Context) error {
	if err := checkContext("disconnect", ctx); err != nil {
		return err
	}
	return errors.Join(e.Connector.Disconnect(ctx), e.Close())
}

// Close ends the connection at once and releases all objects, including the adapter if Dial opened it. If the peer has called Disconnect,
// Close is a graceful end for both sides, and the peer's call returns. Closing twice is harmless.
func (e *Endpoint) Close() error {
	var errs []error
	if e.Connector != nil {
		errs = append(errs, e.Connector.Close())
	}
	if e.QueuePair != nil {
		errs = append(errs, e.QueuePair.Close())
	}
	if e.Queue != nil {
		errs = append(errs, e.Queue.Close())
	}
	if e.Memory != nil {
		errs = append(errs, e.Memory.Close())
	}
	errs = append(errs, e.dispatch.close())
	return errors.Join(append(errs, closeAdapter(e.owned))...)
}
