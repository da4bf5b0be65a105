package udp

import (
	"os"
	"sync"
)

// namespace is a network namespace that networks remember. They share one descriptor: a listener on every address of a machine has a network for each.
type namespace struct {
	cookie uint64
	file   *os.File
	users  int // guarded by namespaces.mu
}

// namespaces are the namespaces of this process that have a cookie. The kernel gives no cookie twice.
var namespaces struct {
	mu       sync.Mutex
	byCookie map[uint64]*namespace // guarded by mu
}

// rememberNamespace returns the calling thread's network namespace, which has a cookie unless that is 0; nil without /proc.
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
	if cookie != 0 { // else namespaces cannot be told apart
		if namespaces.byCookie == nil {
			namespaces.byCookie = map[uint64]*namespace{}
		}
		namespaces.byCookie[cookie] = n
	}
	return n
}

// forget gives back what rememberNamespace returned.
func (n *namespace) forget() error {
	namespaces.mu.Lock()
	defer namespaces.mu.Unlock()
	if n.users--; n.users > 0 {
		return nil
	}
	delete(namespaces.byCookie, n.cookie)
	return n.file.Close()
}
