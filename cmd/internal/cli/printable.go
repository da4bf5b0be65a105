package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Printable makes text from outside this process safe to print. It escapes, as Go does (\x1b, \u202e), bytes that are not UTF-8,
// and characters that could control a terminal, break a line or reverse its direction.
func Printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && strings.ToValidUTF8(s, "") == s {
		return s
	}
	// Quote also escapes quotation marks and backslashes, which are harmless here.
	quoted := strconv.Quote(s)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// PrintableJSON does the same for a line of JSON, without changing its value. encoding/json does not escape control characters
// beyond ASCII.
func PrintableJSON(line string) string {
	var b strings.Builder
	for _, r := range line {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b.WriteString(jsonEscape(high) + jsonEscape(low))
		default:
			b.WriteString(jsonEscape(r))
		}
	}
	return b.String()
}

func jsonEscape(r rune) string {
	return `\u` + strconv.FormatUint(uint64(r)|1<<16, 16)[1:]
}
