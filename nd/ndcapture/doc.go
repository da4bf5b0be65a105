// Package ndcapture writes packets of an adapter to a pcapng file, and decrypts the packets of a file. Each packet has the
// transport's information about it as a comment. docs/OPERATING.md#captures explains how to read the file.
package ndcapture
