package cli

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// HelpWidth is the largest width of output: the default width of a terminal.
const HelpWidth = 80

// addTemplates registers template functions for all commands. cobra keeps them in a global map without a lock.
var addTemplates = sync.OnceFunc(func() {
	cobra.AddTemplateFunc("reflow", reflow)
	cobra.AddTemplateFunc("examples", examples)
})

// fitHelp fits the help of a tree of commands into HelpWidth columns.
func fitHelp(root *cobra.Command) {
	addTemplates()
	root.SetHelpTemplate(strings.Replace(root.HelpTemplate(), "{{. | trim", "{{. | reflow | trim", 1))
	usage := strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", HelpWidth))
	root.SetUsageTemplate(strings.ReplaceAll(usage, "{{.Example}}", "{{examples .Example}}"))
}

// reflow wraps each paragraph anew. A line that begins with a space is not changed.
func reflow(text string) string {
	var out []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		var lines []string
		open := false // words may be added to the last line
		for line := range strings.SplitSeq(paragraph, "\n") {
			plain := !strings.HasPrefix(line, " ")
			if plain && open {
				lines[len(lines)-1] += " " + line
			} else {
				lines = append(lines, line)
			}
			open = plain
		}
		for i := range lines {
			if !strings.HasPrefix(lines[i], " ") {
				lines[i] = Fold(lines[i], HelpWidth, "")
			}
		}
		out = append(out, strings.Join(lines, "\n"))
	}
	return strings.Join(out, "\n\n")
}

// commented is a line of examples: a command with its comment.
var commented = regexp.MustCompile(`^(  \S.*?) {2,}(\S.*)$`)

// examples puts comments beside their commands, or above them if lines would be too wide.
func examples(text string) string {
	type example struct{ command, does string }
	var all []example
	command, does := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		e := example{command: line}
		if m := commented.FindStringSubmatch(line); m != nil {
			e = example{m[1], m[2]}
			command, does = max(command, utf8.RuneCountInString(e.command)), max(does, utf8.RuneCountInString(e.does))
		}
		all = append(all, e)
	}
	const gap = 3
	var out strings.Builder
	for i, e := range all {
		if i > 0 {
			out.WriteByte('\n')
		}
		switch {
		case e.does == "":
			out.WriteString(e.command)
		case command+gap+does <= HelpWidth:
			fmt.Fprintf(&out, "%s%s%s", e.command, strings.Repeat(" ", command+gap-utf8.RuneCountInString(e.command)), e.does)
		default:
			fmt.Fprintf(&out, "  # %s\n%s", e.does, e.command)
		}
	}
	return out.String()
}
