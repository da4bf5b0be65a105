package secure

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Opener is the receiving direction of a connection. The zero value has no key, and opens nothing.
type Opener struct {
	key        aead.Key    // of the present generation
	secret     aead.Secret // of the present generation
	generation uint32
	flooded    bool // the peer changes keys too often
	floor      uint64
	window     *Window // nil while asleep

	before     aead.Key    // of the generation before, while it opens packets
	until      clock.Time  // when the generation before ends
	after      aead.Key    // of the next generation, once a packet named it
	afterwards aead.Secret // secret of the next generation, with after

	header  associated
	forged  uint64     // packets with a wrong tag
	updates int        // key updates that count against Limits.Burst
	updated clock.Time // when updates was reduced last
}

// Install begins a generation with a secret of the handshake: generation 0 or 1. If there was a generation before, it opens packets
// until l.Keep has passed. window records the numbers of packets that open, and belongs to the Opener until Sleep.
func (o *Opener) Install(generation uint32, secret *aead.Secret, window *Window, l *Limits, now clock.Time) error {
	var key aead.Key
	if err := key.Make(secret); err != nil {
		return err
	}
	o.forgetAfter()
	o.begin(generation, *secret, key, l, now)
	if o.window != window {
		o.window = window
		window.Start(o.floor)
	}
	return nil
}

func (o *Opener) begin(generation uint32, secret aead.Secret, key aead.Key, l *Limits, now clock.Time) {
	o.before, o.until = o.key, now.Add(l.Keep)
	o.key, o.secret, o.generation = key, secret, generation
}

// Ready reports whether packets can be opened.
func (o *Opener) Ready() bool { return o.key.Ready() }

// Generation returns the newest key generation that a packet was opened with. Before the first packet it returns the installed generation.
func (o *Opener) Generation() uint32 { return o.generation }

// Forged returns the number of packets whose tag was wrong.
func (o *Opener) Forged() uint64 { return o.forged }

// Exhausted reports that forgers have had as many attempts as the cipher allows. From then on nothing opens.
func (o *Opener) Exhausted(l *Limits) bool { return o.forged >= l.Forged }

// Flooded reports that the peer changed keys more often than any honest peer does.
func (o *Opener) Flooded() bool { return o.flooded }

// Open opens a packet as aead.Key.Open does, and records its number. header is the base header, which names the key generation. The
// full packet number and the full message number are number and message. The latter is zero in a control packet. On a drop nothing is recorded but a
// wrong tag, and the room of dst is undefined. The reasons are DropGeneration, DropReplay and DropTag.
func (o *Opener) Open(dst, sealed []byte, header wire.BaseHeader, number uint64, message uint32, l *Limits, now clock.Time) ([]byte, wire.DropReason) {
	key, generation := &o.key, header.Generation()
	if generation != o.generation || !key.Ready() {
		if key = o.other(generation, now); key == nil {
			return dst, wire.DropGeneration
		}
	}
	if !o.window.Fresh(number) {
		return dst, wire.DropReplay
	}
	plain, ok := key.Open(dst, sealed, o.header.of(header, message), number)
	if !ok {
		if o.forged++; o.Exhausted(l) {
			o.exhaust()
		}
		return dst, wire.DropTag
	}
	o.window.Mark(number)
	if key == &o.after {
		o.follow(l, now)
	}
	return plain, wire.DropNone
}

// other returns the key of a generation that is not the present one, or nil if packets of it are not opened. The key of the next
// generation is derived once, when a packet names it, whether the packet turns out to be authentic or not.
func (o *Opener) other(generation uint32, now clock.Time) *aead.Key {
	if !o.key.Ready() {
		return nil
	}
	switch generation {
	case o.generation - 1:
		if !o.before.Ready() || now >= o.until {
			o.before.Erase()
			return nil
		}
		return &o.before
	case o.generation + 1:
		if o.generation == 0 || !o.after.Ready() && !o.prepare() {
			return nil // generation 1 does not follow from generation 0
		}
		return &o.after
	}
	return nil
}

// prepare derives the key of the next generation.
func (o *Opener) prepare() bool {
	next, err := o.secret.Next()
	if err != nil || o.after.Make(&next) != nil {
		return false // the process may not use the cipher, and could not install the present key
	}
	o.afterwards = next
	return true
}

// follow makes the next generation the present one: a packet of it opened.
func (o *Opener) follow(l *Limits, now clock.Time) {
	o.begin(o.generation+1, o.afterwards, o.after, l, now)
	o.forgetAfter()
	if l.Every > 0 {
		o.countUpdate(l, now)
	}
}

// countUpdate counts an update of the peer.
func (o *Opener) countUpdate(l *Limits, now clock.Time) {
	if earned := int(now.Sub(o.updated) / l.Every); earned >= o.updates {
		o.updates, o.updated = 0, now
	} else if earned > 0 {
		o.updates -= earned
		o.updated = o.updated.Add(time.Duration(earned) * l.Every)
	}
	if o.updates++; o.updates > l.Burst {
		o.flooded = true
	}
}

func (o *Opener) forgetAfter() {
	o.after.Erase()
	o.afterwards.Erase()
}

// exhaust forgets the keys, so that no forger has another attempt.
func (o *Opener) exhaust() {
	o.key.Erase()
	o.before.Erase()
	o.secret.Erase()
	o.forgetAfter()
}

// Sleep forgets the ciphers and the window, which an idle connection does not need. It returns the window. Numbers up to the largest
// number that was opened count as opened after Wake, and only packets of the present generation and the next one open.
func (o *Opener) Sleep() *Window {
	w := o.window
	if w != nil {
		o.floor, o.window = w.End(), nil
	}
	o.key.Erase()
	o.before.Erase()
	o.forgetAfter()
	return w
}

// Wake makes the cipher again after Sleep, with a window for the numbers of packets. If the Opener is awake, it continues with the
// given window in place of its own.
func (o *Opener) Wake(w *Window) error {
	if o.key.Ready() {
		if o.window != w {
			*w = *o.window
			o.window = w
		}
		return nil
	}
	if err := o.key.Make(&o.secret); err != nil {
		return err
	}
	o.window = w
	w.Start(o.floor)
	return nil
}

// Erase forgets all keys.
func (o *Opener) Erase() {
	o.Sleep()
	*o = Opener{}
}

// Secret returns the secret of the present generation, for a key log.
func (o *Opener) Secret() *aead.Secret { return &o.secret }
