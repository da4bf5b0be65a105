// Package capture copies what engines tap into bounded memory, from where one reader takes it as Ethernet frames. Engines never
// wait for the reader: what does not fit is counted as lost.
package capture
