//go:build !xdpdebug

package xdp

// audit does nothing and takes no space without the build tag xdpdebug.
type audit struct{}

// auditing is a constant, so that the compiler removes loops that only audit.
const auditing = false

type frameState uint8

const (
	freeRx frameState = iota
	inFill
	inEngineRx
	freeTx
	inEngineTx
	inTxRing
)

func (audit) start(rx, tx span)                     {}
func (audit) move(addr uint64, from, to frameState) {}
func (audit) send(addr uint64)                      {}
func (audit) complete(addr uint64)                  {}
