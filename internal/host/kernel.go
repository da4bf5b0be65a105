package host

import (
	"errors"
	"sync"

	"github.com/vishvananda/netlink"
)

// Kernel queries the kernel about interfaces, routes and neighbours of a network namespace, and reports changes. The adapters of the
// namespace share it, because a listener on all addresses of a machine has one adapter for each address.
type Kernel struct {
	Netlink *netlink.Handle // nil if the kernel does not report interfaces to this process; then table is nil too
	table   *neighbourTable // nil if the kernel does not report neighbours to this process
	cookie  uint64          // cookie of the namespace; 0 if the kernel does not tell it, and then the Kernel is not shared
	users   int             // guarded by kernels.mu

	mu    sync.Mutex // held while a feed is opened or closed
	feeds [2]*Feed   // [0] reports addresses, [1] also routes, neighbours and queues; nil without listeners; guarded by mu
}

// kernels has the Kernel of each namespace with adapters. The kernel does not reuse cookies.
var kernels struct {
	mu       sync.Mutex
	byCookie map[uint64]*Kernel // guarded by mu
}

// OpenKernel returns the Kernel of the calling thread's network namespace.
func OpenKernel() (*Kernel, error) {
	table, err := openNeighbourTable()
	if err != nil && !NotOffered(err) {
		return nil, err
	}
	k := &Kernel{table: table, users: 1}
	if table != nil {
		k.cookie = table.namespace()
	}
	kernels.mu.Lock()
	defer kernels.mu.Unlock()
	if shared := kernels.byCookie[k.cookie]; shared != nil {
		shared.users++
		return shared, table.close()
	}
	if k.Netlink, err = OpenNetlink(); err != nil || k.Netlink == nil {
		if table != nil {
			err = errors.Join(err, table.close())
		}
		return &Kernel{users: 1}, err
	}
	if k.cookie != 0 {
		if kernels.byCookie == nil {
			kernels.byCookie = map[uint64]*Kernel{}
		}
		kernels.byCookie[k.cookie] = k
	}
	return k, nil
}

// SeesNeighbours reports whether the kernel shows its neighbours to this process.
func (k *Kernel) SeesNeighbours() bool { return k.table != nil }

// Leave releases a Kernel of OpenKernel.
func (k *Kernel) Leave() error {
	kernels.mu.Lock()
	defer kernels.mu.Unlock()
	if k.users--; k.users > 0 {
		return nil
	}
	if k.cookie != 0 {
		delete(kernels.byCookie, k.cookie)
	}
	if k.Netlink != nil {
		k.Netlink.Close()
	}
	if k.table != nil {
		return k.table.close()
	}
	return nil
}
