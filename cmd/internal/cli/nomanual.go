//go:build !manpages

package cli

import "github.com/spf13/cobra"

func addManual(*cobra.Command) {}
