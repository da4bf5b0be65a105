// Package datapath joins one NIC queue (steering, socket, neighbour table) to one provider shard.
package datapath
