// Package capture copies packets of engines into bounded memory, from which one reader takes them as Ethernet frames. Engines never
// wait for the reader: a packet that does not fit is counted as lost.
package capture
