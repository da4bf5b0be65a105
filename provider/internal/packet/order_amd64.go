package packet

// orderStores separates the bytes of a message from its last one, so that whoever polls the last byte sees the others (PROTOCOL §9.1). Here
// processors show the stores of one in the order of the program, and the compiler moves none across the call that copies.
func orderStores() {}
