// Package host asks the kernel what the machine is: its interfaces, addresses, routes and neighbours, and how much memory this process
// may take. It hears of changes. It knows nothing of datapaths.
package host
