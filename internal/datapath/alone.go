package datapath

// When plain sockets stop sending runs of packets and receiving merged ones: the kernel refused a run whose packets it takes one by one, or
// merged packets arrive damaged.

const (
	// mostDamaged packets of mergedWindow that were cut from merged datagrams may have wrong checksums: the network flips bits as well, and
	// UDP's checksum finds most of those.
	mostDamaged  = 4
	mergedWindow = 1 << 20
)

// damage counts packets that were cut from merged datagrams and are not what their sender sent.
type damage struct {
	packets uint64
	since   uint64 // what Merged was when the count began
}

// more takes one in, as the last of so many merged packets, and reports whether there are too many.
func (w *damage) more(merged uint64) bool {
	if merged-w.since > mergedWindow {
		*w = damage{since: merged}
	}
	w.packets++
	return w.packets > mostDamaged
}

// Mangled implements provider.Merging.
func (d *plainUDP) Mangled() {
	if d.alone.Load() == nil && d.damaged.more(d.merged.Load()) {
		d.goAlone("merged packets arrived damaged")
		_ = d.in.Apart() // a socket that cannot is closed
	}
}

// goAlone ends runs and merging for this device, because of why, which Info shows.
func (d *plainUDP) goAlone(why string) { d.alone.CompareAndSwap(nil, &why) }
