package broker

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Policy decides who may use the broker: a client admitted by at least one rule.
type Policy struct {
	Users   []uint32
	Groups  []uint32 // primary or supplementary groups
	Cgroups []string // paths in the cgroup v2 hierarchy as the broker sees it, including cgroups below
}

// Add adds a rule: "uid N", "gid N" or "cgroup /PATH". A number alone is a rule for a user.
func (p *Policy) Add(rule string) error {
	kind, value := "uid", rule
	if at := strings.IndexAny(rule, " \t"); at >= 0 {
		kind, value = rule[:at], strings.TrimSpace(rule[at:])
	}
	if kind == "cgroup" {
		if err := checkCgroup(value); err != nil {
			return err
		}
		p.Cgroups = append(p.Cgroups, value)
		return nil
	}
	id, err := strconv.ParseUint(value, 10, 32)
	switch {
	case kind != "uid" && kind != "gid" || err != nil:
		return fmt.Errorf("%q is no rule: write uid N, gid N or cgroup /PATH, with N from 0 to 4294967295", rule)
	case kind == "uid":
		p.Users = append(p.Users, uint32(id))
	default:
		p.Groups = append(p.Groups, uint32(id))
	}
	return nil
}

// checkCgroup refuses paths that no process can have.
func checkCgroup(cgroup string) error {
	switch {
	case !path.IsAbs(cgroup) || path.Clean(cgroup) != cgroup || inside(cgroup, "/.."):
		return fmt.Errorf("%q is no cgroup: write its path from the root of the cgroup2 file system, such as /system.slice/app.service", cgroup)
	case inside(cgroup, "/sys/fs/cgroup"):
		return fmt.Errorf("%q is no cgroup: leave out the directory where the cgroup2 file system is mounted", cgroup)
	}
	return nil
}

// inside reports whether a path is a directory or lies below it.
func inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// Empty reports whether there is no rule.
func (p *Policy) Empty() bool { return len(p.Users)+len(p.Groups)+len(p.Cgroups) == 0 }

// String lists the rules in the format of Add.
func (p *Policy) String() string {
	var rules []string
	for _, uid := range p.Users {
		rules = append(rules, userRule(uid))
	}
	for _, gid := range p.Groups {
		rules = append(rules, groupRule(gid))
	}
	for _, cgroup := range p.Cgroups {
		rules = append(rules, cgroupRule(cgroup))
	}
	if len(rules) == 0 {
		return "nobody"
	}
	return strings.Join(rules, ", ")
}

func userRule(uid uint32) string      { return fmt.Sprintf("uid %d", uid) }
func groupRule(gid uint32) string     { return fmt.Sprintf("gid %d", gid) }
func cgroupRule(cgroup string) string { return "cgroup " + cgroup }

// Admit returns the first rule that admits a peer, or an error if none does.
func (p *Policy) Admit(peer *Peer) (rule string, err error) {
	if slices.Contains(p.Users, peer.UID) {
		return userRule(peer.UID), nil
	}
	for _, gid := range p.Groups {
		if gid == peer.GID || slices.Contains(peer.Groups, gid) {
			return groupRule(gid), nil
		}
	}
	// A process outside of the broker's cgroup namespace has a path of "/.." or below. No rule can name this cgroup.
	if !inside(peer.Cgroup, "/..") {
		for _, cgroup := range p.Cgroups {
			if inside(peer.Cgroup, cgroup) {
				return cgroupRule(cgroup), nil
			}
		}
	}
	err = fmt.Errorf("user %d may not use this broker: no rule admits the user, its groups or its cgroup: "+
		"the operator of the broker adds one by --allow-uid, --allow-gid, --allow-cgroup or --allow-from", peer.UID)
	if peer.Cgroup != "" {
		err = fmt.Errorf("%w (the client's cgroup is %q)", err, peer.Cgroup) // quoted, because the user who makes a cgroup chooses its name
	}
	if peer.Unknown != nil {
		err = fmt.Errorf("%w (%w)", err, peer.Unknown)
	}
	return "", err
}
