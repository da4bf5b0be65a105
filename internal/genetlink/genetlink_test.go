package genetlink

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func TestHeaderIsItsOwnBytes(t *testing.T) {
	if got := (header{5, 1}).Serialize(); !slices.Equal(got, []byte{5, 1, 0, 0}) || len(got) != HeaderLen {
		t.Errorf("%v", got)
	}
}

// The family of families is there in every kernel, and knows itself.
func TestExecute(t *testing.T) {
	name := nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated("nlctrl"))
	answers, err := Execute("nlctrl", nl.GENL_CTRL_CMD_GETFAMILY, 0, name)
	if err != nil || len(answers) != 1 {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	if id, err := familyID("nlctrl"); id != nl.GENL_ID_CTRL || err != nil {
		t.Errorf("nlctrl has number %d, %v", id, err)
	}
}

func TestNoSuchFamily(t *testing.T) {
	if _, err := Execute("no-such-family", 1, 0); !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v", err)
	}
}
