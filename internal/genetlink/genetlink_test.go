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

// Every kernel has the controller family, which describes itself.
func TestExecute(t *testing.T) {
	name := nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated("nlctrl"))
	answers, err := Execute("nlctrl", nl.GENL_CTRL_CMD_GETFAMILY, 0, name)
	if err != nil || len(answers) != 1 {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	c, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // a connection answers several requests
		if f, err := c.family("nlctrl"); f.id != nl.GENL_ID_CTRL || f.groups["notify"] == 0 || err != nil {
			t.Errorf("nlctrl is %+v, %v", f, err)
		}
	}
}

func TestSubscribe(t *testing.T) {
	s, err := Subscribe("nlctrl", "notify")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, c := range [][2]string{{"nlctrl", "no-such-group"}, {"no-such-family", "notify"}} {
		if _, err := Subscribe(c[0], c[1]); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s of %s: %v", c[1], c[0], err)
		}
	}
}

// Without a mask every set bit counts. With a mask a bit counts only if its value is set.
func TestNamesInABitset(t *testing.T) {
	bit := func(list *nl.RtAttr, name string, set bool) {
		b := list.AddRtAttr(bitsetBit|unix.NLA_F_NESTED, nil)
		b.AddRtAttr(bitName, nl.ZeroTerminated(name))
		if set {
			b.AddRtAttr(bitValue, nil)
		}
	}
	for _, c := range []struct {
		noMask bool
		want   []string
	}{{true, []string{"a", "b"}}, {false, []string{"b"}}} {
		set := nl.NewRtAttr(featuresHW|unix.NLA_F_NESTED, nil)
		if c.noMask {
			set.AddRtAttr(bitsetNoMask, nil)
		}
		list := set.AddRtAttr(bitsetBits|unix.NLA_F_NESTED, nil)
		bit(list, "a", false)
		bit(list, "b", true)
		for _, s := range parts(set.Serialize(), featuresHW) {
			if got := namesIn(s); !slices.Equal(got, c.want) {
				t.Errorf("no mask %t: %q, want %q", c.noMask, got, c.want)
			}
		}
	}
}

func TestNoSuchFamily(t *testing.T) {
	if _, err := Execute("no-such-family", 1, 0); !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v", err)
	}
}
