package ndtls_test

import (
	"crypto/tls"
	"fmt"
	"net"

	"github.com/ndxdp/ndxdp/nd/ndtls"
)

// Two members know one secret, and accept each other. The configuration is for both roles, and for crypto/tls as well.
func ExampleShared() {
	secret := []byte("32 random bytes from crypto/rand") // of a file that only the members can read
	cfg, err := ndtls.Shared(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	a, b := net.Pipe()
	go tls.Server(b, cfg).Handshake()
	fmt.Println(tls.Client(a, cfg).Handshake())
	// Output: <nil>
}
