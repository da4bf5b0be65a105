//go:build xdpdebug

package xdp

import "fmt"

// frameState is the owner of a frame (see the life cycle in doc.go). A frame is inFill until Receive returns it, whichever side of
// the rings has it.
type frameState uint8

const (
	freeRx frameState = iota
	inFill
	inEngineRx
	freeTx
	inEngineTx
	inTxRing
)

func (s frameState) String() string {
	names := [...]string{"free rx", "fill ring", "rx/engine", "free tx", "tx/engine", "tx ring"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

const auditing = true

// audit tracks the state of every frame of one socket. The socket's owner uses it.
type audit struct {
	rx, tx           frameRange
	rxState, txState []frameState
}

func (a *audit) start(rx, tx span) {
	a.rx, a.tx = rangeOf(rx), rangeOf(tx)
	a.rxState = make([]frameState, rx.count)
	a.txState = make([]frameState, tx.count)
	for i := range a.txState {
		a.txState[i] = freeTx
	}
}

// state returns the state of the frame that contains addr, or nil for arena addresses.
func (a *audit) state(addr uint64) *frameState {
	switch {
	case a.rx.contains(addr):
		return &a.rxState[(addr-a.rx.base)/FrameSize]
	case a.tx.contains(addr):
		return &a.txState[(addr-a.tx.base)/FrameSize]
	}
	return nil
}

func (a *audit) move(addr uint64, from, to frameState) {
	s := a.state(addr)
	if s == nil {
		panic(fmt.Sprintf("xdp: frame %#x is not this socket's, moving %v -> %v", addr, from, to))
	}
	if *s != from {
		panic(fmt.Sprintf("xdp: frame %#x is in state %q, moving %v -> %v", addr&^uint64(frameMask), *s, from, to))
	}
	*s = to
}

// send records that Transmit takes a tx frame or a received frame.
func (a *audit) send(addr uint64) {
	switch {
	case a.rx.contains(addr):
		a.move(addr, inEngineRx, inTxRing)
	case a.tx.contains(addr):
		a.move(addr, inEngineTx, inTxRing)
	}
}

// complete records that Complete returns a frame to its pool.
func (a *audit) complete(addr uint64) {
	switch {
	case a.rx.contains(addr):
		a.move(addr, inTxRing, freeRx)
	case a.tx.contains(addr):
		a.move(addr, inTxRing, freeTx)
	}
}
