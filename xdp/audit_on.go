//go:build xdpdebug

package xdp

import "fmt"

// frameState says who owns a frame: see the life cycle in doc.go. The kernel's part of a ring is not told apart from
// ours: a frame is inFill until Receive hands it out.
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

// audit knows the state of every frame of one socket. It belongs to the socket's owner.
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

// state finds the record of the frame that contains addr, nil for arena addresses.
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

// send moves what Transmit takes: a tx frame or a received frame out of the engine's hands.
func (a *audit) send(addr uint64) {
	switch {
	case a.rx.contains(addr):
		a.move(addr, inEngineRx, inTxRing)
	case a.tx.contains(addr):
		a.move(addr, inEngineTx, inTxRing)
	}
}

// complete moves what Complete reaps back to the pool that it came from.
func (a *audit) complete(addr uint64) {
	switch {
	case a.rx.contains(addr):
		a.move(addr, inTxRing, freeRx)
	case a.tx.contains(addr):
		a.move(addr, inTxRing, freeTx)
	}
}
