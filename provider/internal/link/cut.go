package link

import (
	"errors"

	"github.com/ndxdp/ndxdp/wire"
)

// Cut is a link that drops everything. It replaces the link of an engine that may be broken.
type Cut struct{}

var errCut = errors.New("the engine is cut off from the network")

// Receive implements Link.
func (Cut) Receive([]RxPacket) int { return 0 }

// Ready implements Link.
func (Cut) Ready() bool { return false }

// Recycle implements Link.
func (Cut) Recycle([]uint64) {}

// Frames implements Link.
func (Cut) Frames([]Frag) int { return 0 }

// Transmit implements Link.
func (Cut) Transmit([]TxPacket) {}

// Connect implements Link.
func (Cut) Connect(_, _ wire.Endpoint) (Path, error) { return 0, errCut }

// Reply implements Link. It never fails, because nothing is sent.
func (Cut) Reply(_ *RxPacket, _, _ uint16) (Path, bool) { return 1, true }

// Hop implements Link.
func (Cut) Hop(Path) (mac [6]byte) { return mac }

// Forget implements Link.
func (Cut) Forget(Path) {}

// BulkOpen implements Laned.
func (Cut) BulkOpen() bool { return false }

// BulkPath implements Laned.
func (Cut) BulkPath(wire.Endpoint) (Path, bool) { return 0, false }

// ForgetBulk implements Laned, because connections may still have bulk paths of the engine's previous link.
func (Cut) ForgetBulk(Path) {}

// MaxPacket implements Link.
func (Cut) MaxPacket() int { return wire.MinPacket }
