//go:build manpages

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// addManual gives a command the hidden subcommand that writes its manual pages. Only the build that makes the packages has it, because
// nobody who runs a command needs the writer of manual pages in it.
func addManual(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use: "manual DIR", Short: "Write manual pages", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			// The date is that of SOURCE_DATE_EPOCH.
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "ndxdp", Manual: "ndxdp"}, args[0])
		},
	})
}
