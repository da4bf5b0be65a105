package datapath

// keptBytes is more than the cache of one processor (1 and 2 MiB are usual). So a sender's next packets go to memory that is in no other
// processor's cache.
const keptBytes = 2 << 20

// keeps returns how many received bytes stay in an interface's sockets (udp.Config.Keep). It is keptBytes if another processor of this
// machine writes the packets, and 0 if a device does.
func keeps(driver string, loopback bool) int {
	if driver == "veth" || loopback {
		return keptBytes
	}
	return 0
}
