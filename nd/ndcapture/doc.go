// Package ndcapture writes what an adapter captures to a pcapng file, with what the transport knew about every packet in its
// comment. docs/OPERATING.md#captures tells how to read such a file.
package ndcapture
