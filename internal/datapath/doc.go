// Package datapath joins each NIC queue (steering, socket, neighbour table) to one provider shard.
package datapath
