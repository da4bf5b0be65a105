package trace

import "fmt"

// InterfaceChange is a change of the interface below a link, in an event of the flight recorder.
type InterfaceChange uint8

// Changes of an interface. After the semicolon or colon: the meaning of the value. For addresses it is the last four bytes.
const (
	InterfaceUp            InterfaceChange = iota // it works again; no value
	InterfaceDown                                 // it was set down, or lost its carrier; no value
	InterfaceMTU                                  // its MTU changed: bytes
	InterfaceMAC                                  // its link-layer address changed: address
	InterfaceMaster                               // it joined or left another interface: index
	InterfaceLower                                // interfaces below it were added or removed: their number
	InterfaceQueues                               // it has more transmit queues: their number
	InterfaceNeighbour                            // a neighbour's link-layer address changed: IP address
	InterfaceNeighbourLost                        // the kernel lost a neighbour: IP address
	InterfaceRoute                                // the route to peers changed: IP address of the neighbour, or 0 for many
	InterfaceNoRoute                              // the kernel has no route to a peer any more: IP address
	InterfaceResync                               // the kernel lost events, and everything was read again; no value
	InterfaceEnded                                // the adapter ended because of it; no value
	numInterfaceChanges
)

var interfaceChanges = [numInterfaceChanges]string{
	"up", "down", "MTU", "own address", "master", "interfaces beneath", "transmit queues", "neighbour has another address", "neighbour lost",
	"other way", "no route", "read anew", "adapter ended",
}

// String returns a description of the change.
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
