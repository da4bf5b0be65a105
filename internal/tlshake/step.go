package tlshake

import (
	"crypto/tls"
	"errors"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/internal/shaker"
)

// advance gives the TLS state machine bytes of the peer and collects what it produces. It returns nil if there is nothing new.
func (h *Handshake) advance(in []input) *shaker.Step {
	if h.conn == nil {
		return nil
	}
	s := new(shaker.Step)
	err := error(nil)
	if !h.started {
		h.started = true
		err = h.conn.Start(h.ctx)
	}
	some := h.collect(s)
	for i := 0; i < len(in) && err == nil && s.Err == nil; i++ {
		err = h.conn.HandleData(in[i].level, in[i].bytes)
		some = h.collect(s) || some
	}
	if err != nil && s.Err == nil {
		fail(s, err)
	}
	if !some && s.Err == nil {
		return nil
	}
	return s
}

// collect moves the events of the connection into a Step. It reports whether there were any.
func (h *Handshake) collect(s *shaker.Step) (some bool) {
	for s.Err == nil {
		e := h.conn.NextEvent()
		switch e.Kind {
		case tls.QUICNoEvent:
			return some
		case tls.QUICWriteData:
			if e.Level == tls.QUICEncryptionLevelInitial {
				s.Initial = append(s.Initial, e.Data...)
			} else {
				s.Handshake = append(s.Handshake, e.Data...)
			}
		case tls.QUICSetReadSecret:
			install(s, &s.In, e)
		case tls.QUICSetWriteSecret:
			install(s, &s.Out, e)
		case tls.QUICTransportParameters:
			s.Params = append([]byte{}, e.Data...)
		case tls.QUICHandshakeDone:
			s.Done, s.State = true, h.conn.ConnectionState()
		case tls.QUICErrorEvent:
			fail(s, e.Err)
		case tls.QUICTransportParametersRequired, tls.QUICRejectedEarlyData, tls.QUICResumeSession, tls.QUICStoreSession:
			// The parameters were set before, and there are neither early data nor session tickets.
		}
		some = true
	}
	return true
}

// install keeps a secret: of level Handshake for generation 0, of level Application for generation 1.
func install(s *shaker.Step, to *[2]aead.Secret, e tls.QUICEvent) {
	generation := 0
	if e.Level == tls.QUICEncryptionLevelApplication {
		generation = 1
	}
	secret, err := aead.NewSecret(aead.Suite(e.Suite), e.Data)
	if err != nil {
		fail(s, err)
		return
	}
	to[generation] = secret
}

// internalError is the alert of an error without one (RFC 8446 §6.2).
const internalError = 80

// fail records an error. A Step that failed is not Done, and gives no secrets.
func fail(s *shaker.Step, err error) {
	s.Erase()
	s.Err, s.Done, s.Alert = err, false, internalError
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		s.Alert = uint8(alert)
	}
}
