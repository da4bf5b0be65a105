package sim

import "time"

// This file simulates the networks of long packets (PROTOCOL §11.2), which keep GSO batches whole or split them.

// sizeOnLink returns the size of the largest packet that a link carries of a packet: that of a segment, if it is a long one.
func sizeOnLink(packet []byte, segment int) int {
	if segment > 0 {
		return min(segment, len(packet))
	}
	return len(packet)
}

// deliver hands a packet to its receiver. If the network splits GSO batches, the segments of a long packet arrive one by one. With
// crypto/tls only the first one does, because a seed does not determine the bytes of the others, and so the reason why they are dropped.
func (n *Network) deliver(from, to *Host, path pathEnds, packet []byte, marked bool) {
	if path.segment == 0 || !n.splits[[2]*Host{from, to}] {
		to.arrive(path, packet, marked)
		return
	}
	n.Happened[Split]++
	for segment := path.segment; len(packet) > 0; {
		k := min(segment, len(packet))
		path.segment = 0
		to.arrive(path, packet[:k:k], marked)
		packet = packet[k:]
		if n.secrets.random() {
			return
		}
	}
}

// random reports whether keys are random, as with crypto/tls.
func (s *secrets) random() bool { return s != nil && s.real != nil }

// drawLong draws whether a host with a bulk path takes long packets, and after how many bytes it probes for them.
func (w *world) drawLong(cfg *HostConfig) {
	if takes, after := w.longs.IntN(4) > 0, 1<<w.longs.IntN(18); takes && cfg.Lane {
		cfg.Engine.LongAfter = after
	}
}

// drawSplits draws between which hosts the network splits GSO batches from the start, and when it first changes, also in a world without
// random faults.
func (w *world) drawSplits() {
	for _, from := range w.net.hosts {
		for _, to := range w.net.hosts {
			hosts := [2]*Host{from, to}
			w.net.splits[hosts] = w.longs.IntN(4) == 0 && w.net.Rates[Split] > 0
			if change := w.longs.IntN(3) == 0; change && w.net.Rates[Split] > 0 {
				w.net.After(between(w.longs, 0, 20*time.Millisecond), func() { w.net.splits[hosts] = !w.net.splits[hosts] })
			}
		}
	}
}

// randomSplit makes the network between two hosts split GSO batches, or keep them whole.
func (w *world) randomSplit(a, b *Host) {
	split, back := w.longs.IntN(2) == 0, w.longs.IntN(2) == 0
	if !chance(w.longs, w.net.Rates[Split]) {
		return
	}
	w.net.splits[[2]*Host{a, b}] = split
	if back {
		w.net.splits[[2]*Host{b, a}] = split
	}
}
