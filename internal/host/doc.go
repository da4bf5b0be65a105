// Package host queries the kernel about the machine: interfaces, addresses, routes and neighbours, and how much memory this process may
// pin. It also reports changes. It does not depend on datapaths.
package host
