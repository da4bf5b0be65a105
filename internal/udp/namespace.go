package udp

import (
	"os"
	"sync"
)

// namespace is a network namespace that Networks use. Networks share one descriptor, because a listener on all addresses of a
// machine has a Network for each address.
type namespace struct {
	cookie uint64
	file   *os.File
	users  int // guarded by namespaces.mu
}

// namespaces are this process's namespaces with a cookie. The kernel does not reuse cookies.
var namespaces struct {
	mu       sync.Mutex
	byCookie map[uint64]*namespace // guarded by mu
}

// rememberNamespace returns the calling thread's network namespace, or nil without /proc. cookie identifies the namespace; 0 is
// unknown.
func rememberNamespace(cookie uint64) *namespace {
	namespaces.mu.Lock()
	defer namespaces.mu.Unlock()
	if n := namespaces.byCookie[cookie]; n != nil {
		n.users++
		return n
	}
	file, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil
	}
	n := &namespace{cookie: cookie, file: file, users: 1}
	if cookie != 0 { // without a cookie namespaces cannot be distinguished
		if namespaces.byCookie == nil {
			namespaces.byCookie = map[uint64]*namespace{}
		}
		namespaces.byCookie[cookie] = n
	}
	return n
}

// forget releases a namespace of rememberNamespace.
func (n *namespace) forget() error {
	namespaces.mu.Lock()
	defer namespaces.mu.Unlock()
	if n.users--; n.users > 0 {
		return nil
	}
	delete(namespaces.byCookie, n.cookie)
	return n.file.Close()
}
