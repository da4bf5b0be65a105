package xdp

import (
	"math/bits"
	"time"
)

// Mode is how a socket binds. Attaching the program chooses between generic and native XDP; in both cases ModeCopy binds in copy
// mode.
type Mode uint8

const (
	// ModeAuto lets the kernel try zero-copy and fall back to copy. Info reports the result.
	ModeAuto Mode = iota
	// ModeCopy binds with XDP_COPY: every driver can do it.
	ModeCopy
	// ModeZeroCopy binds with XDP_ZEROCOPY. It fails with ErrNotSupported if the driver does not support it, or does not support a
	// requested MultiBuffer. Every packet that arrives on the queue is then received into the UMEM, not only redirected packets.
	// While no receive frame is free, no program receives packets of this queue.
	ModeZeroCopy
)

// String names the mode for logs.
func (m Mode) String() string {
	switch m {
	case ModeAuto:
		return "auto"
	case ModeCopy:
		return "copy"
	case ModeZeroCopy:
		return "zero-copy"
	}
	return "unknown"
}

// Default ring sizes. 4096 holds a burst of 64 packets on each of 64 connections. The fill ring is twice the rx ring, so that the
// kernel has an empty frame even if the rx ring is full.
const (
	DefaultRxRing         = 4096
	DefaultFillRing       = 8192
	DefaultTxRing         = 4096
	DefaultCompletionRing = 4096
)

const (
	// DefaultSendBuffer is requested before bind. Copy-mode TX is charged to the socket's send buffer. A full TX ring of 4096
	// descriptors holds 16 MiB of payload pages, plus skb overhead; four times that is enough. The system default of 212992 bytes
	// holds three packets of 60 KiB.
	DefaultSendBuffer = 64 << 20
	// DefaultBindTimeout bounds the wait for a queue whose previous socket has just closed: the kernel frees it some milliseconds
	// after close (measured on Linux 6.18).
	DefaultBindTimeout = 2 * time.Second
	// MinTxBudget is the kernel's default number of descriptors per sendto, and the minimum of XDP_MAX_TX_SKB_BUDGET.
	MinTxBudget = 32
	// maxRing prevents overflow of a ring's size in bytes. The kernel has no memory for larger rings anyway.
	maxRing = 1 << 20
)

// Config describes one socket. A zero field has its default; Ifindex has none.
type Config struct {
	Ifindex int    // interface index in the calling thread's network namespace
	Queue   uint32 // NIC queue
	Mode    Mode

	// MultiBuffer sets XDP_USE_SG, for packets of several frames. The XDP program must be loaded with BPF_F_XDP_HAS_FRAGS. Most
	// drivers do not support it in zero-copy mode.
	MultiBuffer bool

	RxRing, FillRing, TxRing, CompletionRing uint32 // slots, powers of two

	RxFrames uint32 // frames reserved for receiving; more than RxRing; default 2 x RxRing
	TxFrames uint32 // frames reserved for sending; default TxRing

	SendBuffer int    // bytes; SO_SNDBUFFORCE, then SO_SNDBUF; failure is not an error: see Info.SendBuffer
	TxBudget   uint32 // XDP_MAX_TX_SKB_BUDGET, 32 to TxRing; ignored by kernels before 6.17: see Info.TxBudget

	BindTimeout time.Duration // how long to retry while the queue is busy
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) setDefaults() {
	defaultTo(&c.RxRing, DefaultRxRing)
	defaultTo(&c.FillRing, DefaultFillRing)
	defaultTo(&c.TxRing, DefaultTxRing)
	defaultTo(&c.CompletionRing, DefaultCompletionRing)
	defaultTo(&c.RxFrames, 2*c.RxRing)
	defaultTo(&c.TxFrames, c.TxRing)
	defaultTo(&c.SendBuffer, DefaultSendBuffer)
	defaultTo(&c.BindTimeout, DefaultBindTimeout)
}

// Validate returns an error for the first invalid field, after defaults are applied.
func (c *Config) Validate() error {
	full := *c
	full.setDefaults()
	if full.Ifindex <= 0 {
		return fieldError("Ifindex", "is %d, want the index of an existing interface", full.Ifindex)
	}
	return full.validateSizes()
}

// validateSizes checks the fields that do not depend on an interface.
func (c *Config) validateSizes() error {
	if c.Mode > ModeZeroCopy {
		return fieldError("Mode", "is %d, want ModeAuto, ModeCopy or ModeZeroCopy", c.Mode)
	}
	for _, ring := range []struct {
		name  string
		slots uint32
	}{
		{"RxRing", c.RxRing},
		{"FillRing", c.FillRing},
		{"TxRing", c.TxRing},
		{"CompletionRing", c.CompletionRing},
	} {
		if bits.OnesCount32(ring.slots) != 1 || ring.slots > maxRing {
			return fieldError(ring.name, "is %d, want a power of two up to %d", ring.slots, maxRing)
		}
	}
	// A packet must fit into each ring.
	if c.MultiBuffer && min(c.RxRing, c.TxRing, c.CompletionRing) < MaxFrags {
		return fieldError("RxRing, TxRing, CompletionRing", "must each hold a packet of %d frames", MaxFrags)
	}
	if c.RxFrames <= c.RxRing {
		return fieldError("RxFrames", "is %d, must exceed RxRing (%d) or a full rx ring starves the fill ring", c.RxFrames, c.RxRing)
	}
	if c.TxBudget != 0 && (c.TxBudget < MinTxBudget || c.TxBudget > c.TxRing) {
		return fieldError("TxBudget", "is %d, want %d to TxRing (%d)", c.TxBudget, MinTxBudget, c.TxRing)
	}
	if c.SendBuffer < 0 {
		return fieldError("SendBuffer", "is %d, want a positive number of bytes", c.SendBuffer)
	}
	if c.BindTimeout < 0 {
		return fieldError("BindTimeout", "is %v, want a positive duration", c.BindTimeout)
	}
	return nil
}
