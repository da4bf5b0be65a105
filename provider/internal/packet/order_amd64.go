package packet

// orderStores makes the last byte of a message visible after all other bytes, for applications that poll the last byte (PROTOCOL
// §9.1). It is empty on amd64: the processor keeps the order of stores, and the compiler does not move stores across this call.
func orderStores() {}
