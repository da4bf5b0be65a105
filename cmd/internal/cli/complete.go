package cli

import (
	"net"
	"net/netip"

	"github.com/spf13/cobra"
)

// Complete sets the completion of a command's flag. The flag must exist.
func Complete(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // no flag of this name: a bug in this program
	}
}

// Datapaths completes the values of --datapath.
func Datapaths(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"auto", "generic", "native", "udp", "ring", "tcx"}, cobra.ShellCompDirectiveNoFileComp
}

// InterfaceNames completes an argument or a flag with the interfaces that have an address.
func InterfaceNames(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, err := Interfaces()
	if err != nil || len(args) > 0 {
		names = nil
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// LocalAddrs completes a flag with the addresses of this machine and their interfaces.
func LocalAddrs(*cobra.Command, []string, string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
	interfaces, _ := net.Interfaces() // without them there is nothing to complete
	for i := range interfaces {
		addrs, _ := interfaces[i].Addrs() // as above
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && !p.Addr().IsLinkLocalUnicast() {
				all = append(all, cobra.CompletionWithDesc(p.Addr().String(), interfaces[i].Name))
			}
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// Interfaces returns the interfaces that have an address, without loopback. If there is no other, it returns loopback.
func Interfaces() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var far, near []string
	for i := range all {
		addrs, err := all[i].Addrs()
		switch {
		case err != nil:
			return nil, err
		case len(addrs) == 0:
		case all[i].Flags&net.FlagLoopback != 0:
			near = append(near, all[i].Name)
		default:
			far = append(far, all[i].Name)
		}
	}
	if len(far) == 0 {
		return near, nil
	}
	return far, nil
}
