package broker

import (
	"errors"
	"strings"
	"testing"
)

// rules makes a policy from rules in the format of Add.
func rules(t *testing.T, all ...string) *Policy {
	t.Helper()
	p := &Policy{}
	for _, rule := range all {
		if err := p.Add(rule); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// TestPolicyAdmits: any single rule admits a peer. A part of a name does not match, nor does a cgroup outside of the broker's view.
func TestPolicyAdmits(t *testing.T) {
	all := []string{"uid 1000", "gid 1500", "gid 1501", "cgroup /a/b", "cgroup /c"}
	for _, c := range []struct {
		name  string
		rules []string
		peer  Peer
		rule  string // "" if no rule admits it
	}{
		{"a user", all, Peer{UID: 1000, GID: 1}, "uid 1000"},
		{"a primary group", all, Peer{UID: 1, GID: 1500}, "gid 1500"},
		{"a supplementary group", all, Peer{UID: 1, GID: 1, Groups: []uint32{7, 1501}}, "gid 1501"},
		{"a cgroup", all, Peer{UID: 1, Cgroup: "/a/b"}, "cgroup /a/b"},
		{"far below a cgroup", all, Peer{UID: 1, Cgroup: "/a/b/c/d"}, "cgroup /a/b"},
		{"the second cgroup", all, Peer{UID: 1, Cgroup: "/c/a"}, "cgroup /c"},
		{"the root, and all below", []string{"cgroup /"}, Peer{Cgroup: "/a"}, "cgroup /"},
		{"the root itself", []string{"cgroup /"}, Peer{Cgroup: "/"}, "cgroup /"},
		{"an unknown cgroup does not matter to a user", all, Peer{UID: 1000, Unknown: errors.New("unknown")}, "uid 1000"},

		{"no rule", nil, Peer{Cgroup: "/"}, ""},
		{"a user that has a group's number", all, Peer{UID: 1500, GID: 1}, ""},
		{"groups that have a user's number", all, Peer{UID: 1, GID: 1000, Groups: []uint32{1000}}, ""},
		{"the same start of a name", all, Peer{Cgroup: "/a/bc"}, ""},
		{"a cgroup that was removed", all, Peer{Cgroup: "/a/b (deleted)"}, ""},
		{"above a cgroup", all, Peer{Cgroup: "/a"}, ""},
		{"the root", all, Peer{Cgroup: "/"}, ""},
		{"the same end", all, Peer{Cgroup: "/x/a/b"}, ""},
		{"an unknown cgroup", all, Peer{}, ""},
		{"an unknown cgroup, and the root", []string{"cgroup /"}, Peer{}, ""},
		{"above the broker's cgroup namespace", []string{"cgroup /"}, Peer{Cgroup: "/.."}, ""},
		{"beside the broker's cgroup namespace", []string{"cgroup /"}, Peer{Cgroup: "/../../a/b"}, ""},
	} {
		rule, err := rules(t, c.rules...).Admit(&c.peer)
		if rule != c.rule || (err == nil) != (c.rule != "") {
			t.Errorf("%s: %q, %v, want %q", c.name, rule, err, c.rule)
		}
	}
}

// TestPolicyRefusal: a refusal names the client, the rules that would admit it, and the unknown properties. These parts of the
// error come before parts whose length the client controls.
func TestPolicyRefusal(t *testing.T) {
	secret := errors.New("its cgroup hides")
	long := "/\x1b" + strings.Repeat("x", 4000)
	_, err := rules(t, "uid 1").Admit(&Peer{UID: 1000, Cgroup: long, Unknown: secret})
	if !errors.Is(err, secret) {
		t.Errorf("%v does not name what is unknown", err)
	}
	said := refusal(err, false).Error
	for _, want := range []string{"user 1000 may not use this broker", "no rule", "--allow-uid", "--allow-gid", "--allow-cgroup", "--allow-from", `"/\x1bxxx`} {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
}

// TestPolicyRules: String returns the rules that Add was given, and rules that match nothing are refused.
func TestPolicyRules(t *testing.T) {
	p := rules(t, "gid 0", "1000", "uid\t 4294967295", "cgroup /system.slice/my app@1.service", "cgroup /")
	if got, want := p.String(), "uid 1000, uid 4294967295, gid 0, cgroup /system.slice/my app@1.service, cgroup /"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if empty := new(Policy); !empty.Empty() || empty.String() != "nobody" || p.Empty() {
		t.Errorf("empty: %t, %q; not empty: %t", empty.Empty(), empty, p.Empty())
	}
	for _, c := range []struct{ rule, want string }{
		{"", "is no rule"},
		{"everybody", `"everybody" is no rule: write uid N, gid N or cgroup /PATH`},
		{"user 1000", "is no rule"},
		{"uid", "is no rule"},
		{"uid -1", "is no rule"},
		{"gid wheel", `"gid wheel" is no rule`},
		{"gid 4294967296", "is no rule"},
		{"1000 1001", "is no rule"},
		{"cgroup", "is no rule"},
		{"cgroup ", `"" is no cgroup`},
		{"cgroup app.service", `"app.service" is no cgroup: write its path`},
		{"cgroup /a/", "is no cgroup"},
		{"cgroup /a//b", "is no cgroup"},
		{"cgroup /a/../b", "is no cgroup"},
		{"cgroup /..", "is no cgroup"},
		{"cgroup /../a", "is no cgroup"},
		{"cgroup /sys/fs/cgroup/app.service", "leave out the directory where"},
	} {
		p := &Policy{}
		wantText(t, c.rule, p.Add(c.rule), c.want)
		if !p.Empty() {
			t.Errorf("%q: refused, and added as %q", c.rule, p)
		}
	}
}
