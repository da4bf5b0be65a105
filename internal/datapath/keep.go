package datapath

// keptBytes is more than the cache of one processor (1 and 2 MiB are usual). A sender's next packets then go to memory that no other
// processor's cache holds.
const keptBytes = 2 << 20

// keeps says how many received bytes stay in an interface's sockets (udp.Config.Keep): some if another processor of this machine writes
// packets, and none if a device writes them.
func keeps(driver string, loopback bool) int {
	if driver == "veth" || loopback {
		return keptBytes
	}
	return 0
}
