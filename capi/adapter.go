//go:build cgo

package main

// #include "ndxdp.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/ndxdp/ndxdp/internal/stackroom"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// adapter is an open adapter.
type adapter struct{ *verbs.Adapter }

//export ndxgo_adapter_open
func ndxgo_adapter_open(sa *C.struct_sockaddr, c *C.struct_ndx_adapter_config, cause *C.char, out *C.uint64_t) status {
	stackroom.Reserve()
	cfg, engine, err := configure(c)
	if err != nil {
		explain(cause, err)
		return invalidParameter
	}
	cfg.Address = fromC(sa).Addr()
	a, o, err := verbs.Open(cfg, engine)
	if o != provider.OutcomeSuccess {
		explain(cause, err)
		return statuses[o]
	}
	h := adapters.put(&adapter{a})
	if h == 0 {
		_ = a.Close() // nothing has used it
		return noResources
	}
	*out = C.uint64_t(h)
	return success
}

// configure returns the configurations of an adapter and of its engines.
func configure(c *C.struct_ndx_adapter_config) (cfg verbs.Config, engine provider.Config, err error) {
	cfg.UDPPort, cfg.Spin = uint16(c.udp_port), time.Duration(c.spin_us)*time.Microsecond
	engine.Stalled = time.Duration(c.peer_timeout_ms) * time.Millisecond
	if c.broker != nil {
		cfg.Broker = C.GoString(c.broker)
	}
	if c.datapath != nil {
		cfg.Datapath, err = verbs.ParseDatapath(C.GoString(c.datapath))
	}
	if c.bulk != nil && err == nil {
		cfg.Bulk, err = verbs.ParseBulk(C.GoString(c.bulk))
	}
	return cfg, engine, err
}

//export ndxgo_adapter_query
func ndxgo_adapter_query(h C.uint64_t, out *C.struct_ndx_adapter_info) status {
	a, ok := adapters.get(h)
	if !ok {
		return invalidHandle
	}
	if a.Closed() {
		return statuses[provider.OutcomeDeviceRemoved]
	}
	size := out.size
	info := C.struct_ndx_adapter_info{
		size: size, max_sge: provider.MaxSGE, max_transfer: provider.MaxTransfer, max_inline: verbs.MaxInline,
		max_queue_depth: verbs.MaxQueueDepth, max_shared_depth: verbs.MaxSharedDepth, max_cq_depth: verbs.MaxCQDepth,
		max_read_limit: verbs.MaxReadLimit, max_private_data: provider.MaxPrivateData, max_memory: 1 << 16,
	}
	if a.ReachesItself() {
		info.reaches_itself = 1
	}
	i := a.Device.Info()
	info.mtu = C.uint32_t(i.MTU)
	putText(info.interface_name[:], i.Interface)
	putText(info.datapath[:], i.Datapath.String())
	putText(info.reason[:], i.Reason)
	n := min(int(size), C.sizeof_struct_ndx_adapter_info)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(out)), n), unsafe.Slice((*byte)(unsafe.Pointer(&info)), n))
	return success
}

//export ndxgo_adapter_close
func ndxgo_adapter_close(h C.uint64_t, cause *C.char) status {
	a, ok := adapters.take(h)
	if !ok {
		return invalidHandle
	}
	if err := a.Close(); err != nil {
		explain(cause, err)
		return C.NDX_ERR_UNSUCCESSFUL
	}
	return success
}
