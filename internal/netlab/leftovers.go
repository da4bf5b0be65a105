package netlab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// aliasPrefix begins the alias of lo in every namespace of this package. The id of the creating process follows.
const aliasPrefix = "ndxdp netlab "

func ownAlias() string { return aliasPrefix + strconv.Itoa(os.Getpid()) }

// Leftovers describes each namespace, with its links, that this process or an ended process made, and that a process still holds.
// Namespaces of other living processes are left out. An empty list means that nothing is left.
func Leftovers() ([]string, error) {
	own, err := inodeOf(threadNetPath)
	if err != nil {
		return nil, fmt.Errorf("netlab: leftovers: %w", err)
	}
	seen := map[uint64]bool{own: true}
	var found []string
	var errs []error
	for _, path := range holders() {
		inode, err := inodeOf(path)
		if err != nil || seen[inode] {
			continue // the holder is gone, or the namespace was already seen
		}
		seen[inode] = true
		description, err := describe(path, inode)
		if err != nil {
			errs = append(errs, fmt.Errorf("netlab: leftovers: %s: %w", path, err))
		}
		if description != "" {
			found = append(found, fmt.Sprintf("net:[%d] held by %s: %s", inode, path, description))
		}
	}
	return found, errors.Join(errs...)
}

// holders returns the paths in /proc of everything that keeps a network namespace alive: threads and descriptors.
func holders() []string {
	paths, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*/ns/net") // Glob only fails on a bad pattern
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, path := range descriptors {
		if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, "net:[") {
			paths = append(paths, path)
		}
	}
	return paths
}

func inodeOf(path string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, err
	}
	return stat.Ino, nil
}

// describe lists the links of a namespace. It returns "" if the namespace is gone, was not made by this package, or belongs to a
// living process.
func describe(path string, inode uint64) (string, error) {
	// The descriptor may have been closed, or may be another file. Opening it must not block.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil
	}
	n := &Namespace{file: os.NewFile(uintptr(fd), path)}
	defer func() { _ = n.Close() }() // opened read-only, so an error does not matter
	if !isNamespace(fd, inode) {
		return "", nil
	}
	handle, err := n.handle()
	if err != nil {
		return "", err
	}
	defer handle.Close()
	links, err := handle.LinkList()
	if err != nil {
		return "", err
	}
	ours := false
	names := make([]string, 0, len(links))
	for _, link := range links {
		attrs := link.Attrs()
		names = append(names, link.Type()+" "+attrs.Name)
		if maker, ok := strings.CutPrefix(attrs.Alias, aliasPrefix); ok {
			ours = maker == strconv.Itoa(os.Getpid()) || !running(maker)
		}
	}
	if !ours {
		return "", nil
	}
	return strings.Join(names, ", "), nil
}

func isNamespace(fd int, inode uint64) bool {
	var fs unix.Statfs_t
	var stat unix.Stat_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.NSFS_MAGIC &&
		unix.Fstat(fd, &stat) == nil && stat.Ino == inode
}

func running(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err == nil
}
