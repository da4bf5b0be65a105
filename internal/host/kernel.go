package host

import (
	"errors"
	"sync"

	"github.com/vishvananda/netlink"
)

// Kernel is how this process asks about interfaces, routes and neighbours of a network namespace, and hears of changes. Adapters of the namespace
// share it: a listener on every address of a machine has an adapter for each.
type Kernel struct {
	Netlink *netlink.Handle // nil where the kernel does not tell this process of interfaces; then table is nil, too
	table   *neighbourTable // nil where the kernel does not tell this process of neighbours
	cookie  uint64          // of the namespace; 0 where the kernel does not tell, and nothing is shared
	users   int             // guarded by kernels.mu

	mu    sync.Mutex // held while a feed begins or ends
	feeds [2]*Feed   // [0] reports addresses, [1] also routes, neighbours and queues; nil without listeners; guarded by mu
}

// kernels has the kernel of each namespace with adapters. No cookie is given twice.
var kernels struct {
	mu       sync.Mutex
	byCookie map[uint64]*Kernel // guarded by mu
}

// OpenKernel returns the calling thread's.
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

// SeesNeighbours says that the kernel shows its neighbours to this process.
func (k *Kernel) SeesNeighbours() bool { return k.table != nil }

// Leave gives back what OpenKernel returned.
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
