package trace

import "fmt"

// InterfaceChange is what happened to the interface beneath a link, in an event of the flight recorder.
type InterfaceChange uint8

// The changes, and what their value is. Of an address it is the last four bytes.
const (
	InterfaceUp            InterfaceChange = iota // it works again; no value
	InterfaceDown                                 // it was set down, or lost its carrier; no value
	InterfaceMTU                                  // its MTU is another one: bytes
	InterfaceMAC                                  // its link-layer address is another one: address
	InterfaceMaster                               // it belongs to another interface, or to none: index
	InterfaceLower                                // interfaces beneath came or went: their number
	InterfaceQueues                               // it has more transmit queues: their number
	InterfaceNeighbour                            // a neighbour has another link-layer address: IP address
	InterfaceNeighbourLost                        // the kernel does not know a neighbour any more: IP address
	InterfaceRoute                                // peers are reached another way: IP address of the neighbour, or 0 for many
	InterfaceNoRoute                              // the kernel knows no way to a peer any more: IP address
	InterfaceResync                               // the kernel lost events, and everything was read anew; no value
	InterfaceEnded                                // the adapter ended because of it; no value
	numInterfaceChanges
)

var interfaceChanges = [numInterfaceChanges]string{
	"up", "down", "MTU", "own address", "master", "interfaces beneath", "transmit queues", "neighbour has another address", "neighbour lost",
	"other way", "no route", "read anew", "adapter ended",
}

// String says what happened.
func (c InterfaceChange) String() string {
	if c < numInterfaceChanges {
		return interfaceChanges[c]
	}
	return fmt.Sprintf("change %d", uint8(c))
}

// append writes the change with its value.
func (c InterfaceChange) append(b []byte, value uint32) []byte {
	b = append(append(b, ": "...), c.String()...)
	switch c {
	case InterfaceMTU, InterfaceMaster, InterfaceLower, InterfaceQueues:
		b = fmt.Appendf(b, " %d", value)
	case InterfaceMAC, InterfaceNeighbour, InterfaceNeighbourLost, InterfaceRoute, InterfaceNoRoute:
		b = fmt.Appendf(b, " …%d.%d.%d.%d", value>>24, value>>16&0xff, value>>8&0xff, value&0xff)
	case InterfaceUp, InterfaceDown, InterfaceResync, InterfaceEnded, numInterfaceChanges:
	}
	return b
}
