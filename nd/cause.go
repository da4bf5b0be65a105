package nd

import (
	"fmt"

	"github.com/ndxdp/ndxdp/provider"
)

// Cause is the reason why a connection ended, or is about to end. A status says how a request ended, but often not why: when a
// connection ends, the first request may fail with its own status, and all others end with ErrCanceled. Errors of Endpoint.Result
// wrap the cause:
//
//	if errors.Is(err, nd.CausePeerDisconnected) { … }
type Cause uint8

// The causes.
const (
	CauseNone             Cause = 0  // the connection lives, was never made, or was ended by this side
	CausePeerDisconnected Cause = 1  // the peer called Disconnect: Disconnect or Close here ends the connection for both sides
	CausePeerGone         Cause = 2  // the peer closed its end or flushed it, its process or host ended, or it fell silent
	CauseRefusedThere     Cause = 3  // the peer could not carry out a request of this side: token, range, right, length or limit
	CauseRefusedHere      Cause = 4  // this side could not carry out a request of the peer, in the same way
	CauseLocalMemory      Cause = 5  // a slice of a request of this side is not inside the region of its token
	CauseLocalRight       Cause = 6  // the region of a slice, or of a Bind, lacks the right that the request needs
	CauseLocalRequest     Cause = 7  // a Bind or Invalidate of this side was invalid
	CauseNoReceive        Cause = 8  // the peer posted no receive in time
	CausePeerFailed       Cause = 9  // a request of the peer failed at the peer, or waited too long for a receive here
	CauseOverrun          Cause = 10 // a completion queue of this side overran
	CauseProtocol         Cause = 11 // the peer violated the protocol
	CausePeerHasNoTLS     Cause = 12 // a Connect with TLS was refused, because the peer's listener has no TLS
	CausePeerWantsTLS     Cause = 13 // a Connect without TLS was refused, because the peer's listener requires TLS
	CauseOwn              Cause = 14 // this side canceled, by Flush, Disconnect or Close; only errors have this cause
)

var causeText = [...]string{
	CauseNone:             "nothing ended the connection",
	CausePeerDisconnected: "the peer disconnected",
	CausePeerGone:         "the peer is gone: it closed its end, its process or host ended, or it fell silent",
	CauseRefusedThere:     "the peer refused a request of this side: token, range, right, length or limit",
	CauseRefusedHere:      "this side refused a request of the peer: token, range, right, length or limit",
	CauseLocalMemory:      "a local slice is not registered: it is not inside the region of its token, or the region is closed",
	CauseLocalRight:       "local memory lacks a right that the request needs: MRAllowLocalWrite for Receive and Read, the right to bind for Bind",
	CauseLocalRequest:     "a window of this side was not in a state for the request",
	CauseNoReceive:        "the peer posted no receive for it in time",
	CausePeerFailed:       "a request of the peer failed at the peer, or waited too long for a receive here",
	CauseOverrun:          "a completion queue of this side overran",
	CauseProtocol:         "the peer broke the protocol",
	CausePeerHasNoTLS:     "the peer has no TLS: give its listener a TLS configuration, or connect without TLS",
	CausePeerWantsTLS:     "the peer accepts encrypted connections only: connect with a TLS configuration",
	CauseOwn:              "this side canceled it",
}

// Error implements error.
func (c Cause) Error() string {
	if int(c) < len(causeText) {
		return causeText[c]
	}
	return fmt.Sprintf("unknown cause %d", uint8(c))
}

// Cause returns why the connection ended. It is CauseNone unless the peer or a fault ended the connection. It may be called at any time.
func (c *Connector) Cause() (why Cause) {
	c.do(func(*provider.Engine) { why = Cause(c.k.Cause()) })
	return why
}
