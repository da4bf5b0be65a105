package sim

import (
	"encoding/binary"
	"slices"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/internal/shaker"
	"github.com/ndxdp/ndxdp/wire"
)

// keyring has the keys with which a hostile host seals. The host's own handshakes give it their secrets.
type keyring struct {
	chains []*chain
	of     map[chainKey]*chain // by the connections whose packets opened
}

// chain is the keys of one connection in the direction of the hostile host, of generation 0 or from generation 1 on.
type chain struct {
	keys []*aead.Key
	last aead.Secret // of the last key
}

// chainKey is the connection id of a packet, and whether its key is of generation 0.
type chainKey struct {
	conn  uint64
	early bool
}

// mostGenerations bounds the keys of a chain. Keys of worlds change far less often.
const mostGenerations = 4096

// learn takes the secrets of a step of a handshake.
func (k *keyring) learn(step *shaker.Step) {
	for _, secret := range step.Out {
		if secret.Suite() == 0 {
			continue
		}
		first := new(aead.Key)
		if first.Make(&secret) == nil {
			k.chains = append(k.chains, &chain{[]*aead.Key{first}, secret})
		}
	}
}

// key returns the key of the chain's generation i, or nil.
func (c *chain) key(i int) *aead.Key {
	for len(c.keys) <= i && i < mostGenerations {
		next, err := c.last.Next()
		key := new(aead.Key)
		if err != nil || key.Make(&next) != nil {
			return nil
		}
		c.keys, c.last = append(c.keys, key), next
	}
	if i < 0 || i >= len(c.keys) {
		return nil
	}
	return c.keys[i]
}

// generationOf returns the chain that a packet's header names, and which of its keys.
func generationOf(h wire.BaseHeader) (of chainKey, i int) {
	g := h.Generation()
	return chainKey{h.ConnID(), g == 0}, max(int(g), 1) - 1
}

// open returns a packet of the host without its seal: the header and the contents. It returns false if no key opens the packet.
func (k *keyring) open(packet []byte, message uint32) ([]byte, bool) {
	h := wire.BaseHeader(packet[:wire.BaseHeaderLen])
	of, i := generationOf(h)
	try := k.chains
	if known := k.of[of]; known != nil {
		try = []*chain{known}
	}
	for _, c := range slices.Backward(try) {
		key := c.key(i)
		if key == nil {
			continue
		}
		if plain, ok := key.Open(slices.Clone(packet[:wire.BaseHeaderLen]), packet[wire.BaseHeaderLen:], associated(h, message), uint64(h.Number())); ok {
			k.of[of] = c
			return plain, true
		}
	}
	return nil, false
}

// seal seals a packet that open returned. If there is no key, because the header names another connection, it returns the packet.
func (k *keyring) seal(plain []byte, message uint32) []byte {
	h := wire.BaseHeader(plain[:wire.BaseHeaderLen])
	of, i := generationOf(h)
	c := k.of[of]
	if c == nil || c.key(i) == nil {
		return plain
	}
	return c.key(i).Seal(slices.Clone(plain[:wire.BaseHeaderLen]), plain[wire.BaseHeaderLen:], associated(h, message), uint64(h.Number()))
}

// associated returns the data that a tag covers beside the contents (PROTOCOL §10.1).
func associated(h wire.BaseHeader, message uint32) []byte {
	return binary.BigEndian.AppendUint32(slices.Clone(h), message)
}

// traitor makes the handshakes of a hostile host, and tells its forger their secrets.
type traitor struct {
	shaker.Shaker
	forger *forger
}

// Begin implements shaker.Shaker.
func (t *traitor) Begin(local, remote wire.Endpoint, params []byte, deliver func(*shaker.Step)) shaker.Handshake {
	return t.Shaker.Begin(local, remote, params, func(step *shaker.Step) {
		t.forger.keys.learn(step)
		deliver(step)
	})
}
