package datapath

import (
	"errors"
	"sync"

	"github.com/vishvananda/netlink"
)

// kernel is how this process asks about interfaces, routes and neighbours of a network namespace, and hears of changes. Adapters of the namespace
// share it: a listener on every address of a machine has an adapter for each.
type kernel struct {
	nl     *netlink.Handle // nil where the kernel does not tell this process of interfaces; then table is nil, too
	table  *neighbourTable // nil where the kernel does not tell this process of neighbours
	cookie uint64          // of the namespace; 0 where the kernel does not tell, and nothing is shared
	users  int             // guarded by kernels.mu

	mu    sync.Mutex // held while a feed begins or ends
	feeds [2]*feed   // without and with ways; nil while nobody listens; guarded by mu
}

// kernels has the kernel of each namespace with adapters. No cookie is given twice.
var kernels struct {
	mu       sync.Mutex
	byCookie map[uint64]*kernel // guarded by mu
}

// openKernel returns the calling thread's.
func openKernel() (*kernel, error) {
	table, err := openNeighbourTable()
	if err != nil && !notHere(err) {
		return nil, err
	}
	k := &kernel{table: table, users: 1}
	if table != nil {
		k.cookie = table.namespace()
	}
	kernels.mu.Lock()
	defer kernels.mu.Unlock()
	if shared := kernels.byCookie[k.cookie]; shared != nil {
		shared.users++
		return shared, table.close()
	}
	if k.nl, err = openRoutes(); err != nil || k.nl == nil {
		if table != nil {
			err = errors.Join(err, table.close())
		}
		return &kernel{users: 1}, err
	}
	if k.cookie != 0 {
		if kernels.byCookie == nil {
			kernels.byCookie = map[uint64]*kernel{}
		}
		kernels.byCookie[k.cookie] = k
	}
	return k, nil
}

// leave gives back what openKernel returned.
func (k *kernel) leave() error {
	kernels.mu.Lock()
	defer kernels.mu.Unlock()
	if k.users--; k.users > 0 {
		return nil
	}
	if k.cookie != 0 {
		delete(kernels.byCookie, k.cookie)
	}
	if k.nl != nil {
		k.nl.Close()
	}
	if k.table != nil {
		return k.table.close()
	}
	return nil
}
