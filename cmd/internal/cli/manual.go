//go:build manpages

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// addManual adds the hidden subcommand that writes manual pages. Only the build of the packages has it, because users do not need
// it.
func addManual(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use: "manual DIR", Short: "Write manual pages", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			// The date is SOURCE_DATE_EPOCH.
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "ndxdp", Manual: "ndxdp"}, args[0])
		},
	})
}
