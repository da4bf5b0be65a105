package datapath

import "github.com/ndxdp/ndxdp/xdp"

// noBusyPoll is why there is none.
const noBusyPoll = "it takes native XDP, Linux 6.14, CAP_NET_ADMIN, and a driver that tells which receive loop serves a queue"

// tune changes the interface's NAPI settings if pollers run its receive loops, all of them: a loop that nobody runs would only be late.
func (d *xdpDevice) tune(nic xdp.NIC) (err error) {
	all := len(d.queues) > 0
	for _, q := range d.queues {
		all = all && q.busyPoll
	}
	if d.info.Socket.BusyPoll = all; all {
		d.tuning, err = xdp.TuneNAPI(nic)
		return err
	}
	for _, q := range d.queues {
		q.busyPoll = false
	}
	return nil
}
