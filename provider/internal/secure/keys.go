package secure

import (
	"github.com/ndxdp/ndxdp/internal/aead"
)

// Suite is a cipher suite of TLS 1.3, by its number.
type Suite = aead.Suite

// Secret is what the keys of one generation and direction follow from.
type Secret = aead.Secret

// Keys are the keys of both directions of a connection.
type Keys struct {
	Out    Sealer
	In     Opener
	Limits *Limits
}

// Sleep forgets the ciphers of an idle connection, and returns the window.
func (k *Keys) Sleep() *Window {
	k.Out.Sleep()
	return k.In.Sleep()
}

// Wake makes the ciphers again. It fails if the process may not use the cipher any more.
func (k *Keys) Wake(w *Window) error {
	if err := k.Out.Wake(); err != nil {
		return err
	}
	return k.In.Wake(w)
}

// Erase forgets all keys.
func (k *Keys) Erase() {
	k.Out.Erase()
	k.In.Erase()
}
