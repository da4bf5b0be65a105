package datapath

// keptBytes are more than the cache that one processor has to itself (1 and 2 MiB are usual): a sender's next packets then go where no other
// processor's cache holds the last ones.
const keptBytes = 2 << 20

// keeps says how much of what was received stays in an interface's sockets (udp.Config.Keep): something where packets are written by another processor of
// this machine, and nothing where a device writes them.
func keeps(driver string, loopback bool) int {
	if driver == "veth" || loopback {
		return keptBytes
	}
	return 0
}
