// Package tlshake runs TLS 1.3 handshakes beside the engines, on goroutines of its own (PROTOCOL §10.2).
//
// A handshake computes for up to milliseconds and calls functions of the application, so no engine runs one. A Pool runs a bounded
// number of handshakes at a time. An engine gives a Handshake the bytes of its peer and gets Steps back: bytes to send, secrets, and
// in the end the state of the connection or an error. Package shaker is the contract between the two.
//
//	engine   Begin, Give(level, bytes) ---->  goroutine of the Pool: tls.QUICConn
//	         deliver(Step)             <----
//
// TLS is used as QUIC uses it: without its record layer, with transport parameters, and with a protocol name (ALPN). The package knows
// nothing of packets. Config functions say which configurations of an application are accepted, and what is changed in them.
//
// All functions are safe for concurrent use. Functions in the application's configuration run on goroutines of the Pool. If a function waits
// for long, or does not return, the Pool runs other handshakes in its place after slowAfter. So a function may wait for other handshakes.
package tlshake
