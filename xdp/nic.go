package xdp

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// NIC describes a network interface.
type NIC struct {
	Name     string
	Index    int
	Driver   string // empty if the driver does not report it
	RxQueues int
	TxQueues int
	RxRing   int // descriptors of each receive queue of the driver; 0 if it does not report them
	MTU      int
	Up       bool
	Loopback bool
	MAC      net.HardwareAddr
}

// Inspect describes an interface of the calling thread's network namespace, by its name or an alternative name.
func Inspect(name string) (NIC, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return NIC{}, &Error{Op: "inspect interface " + strconv.Quote(name), Err: err, Hint: "permit sockets of AF_INET and AF_INET6 to this process (systemd: RestrictAddressFamilies; containers: the seccomp profile)"}
	}
	defer unix.Close(fd)
	iface, err := InterfaceNamed(name)
	if err != nil {
		iface, err = interfaceByIoctl(fd, name, err)
	}
	if err != nil {
		return NIC{}, &Error{
			Op: "inspect interface " + strconv.Quote(name), Err: err,
			Hint: "check the name and the network namespace",
		}
	}
	name = iface.Name
	nic := NIC{
		Name:     iface.Name,
		Index:    iface.Index,
		MTU:      iface.MTU,
		Up:       iface.Flags&net.FlagUp != 0,
		Loopback: iface.Flags&net.FlagLoopback != 0,
		MAC:      iface.HardwareAddr,
	}
	if info, err := unix.IoctlGetEthtoolDrvinfo(fd, name); err == nil {
		nic.Driver = unix.ByteSliceToString(info.Driver[:])
	}
	nic.RxQueues, nic.TxQueues = queueCounts(fd, nic)
	rings := ethtoolRings{cmd: unix.ETHTOOL_GRINGPARAM}
	if askEthtool(fd, name, &rings) == nil {
		nic.RxRing = int(rings.rxCount)
	}
	return nic, nil
}

// interfaceByIoctl looks up an interface if a sandbox refuses netlink sockets. If it fails, too, it returns refused.
func interfaceByIoctl(fd int, name string, refused error) (*net.Interface, error) {
	nl, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err == nil {
		return nil, errors.Join(refused, unix.Close(nl))
	}
	r, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	i := &net.Interface{Name: name}
	for _, ask := range []struct {
		what uint
		take func()
	}{
		{unix.SIOCGIFINDEX, func() { i.Index = int(r.Uint32()) }},
		{unix.SIOCGIFMTU, func() { i.MTU = int(r.Uint32()) }},
		{unix.SIOCGIFFLAGS, func() {
			if r.Uint16()&unix.IFF_UP != 0 {
				i.Flags |= net.FlagUp
			}
			if r.Uint16()&unix.IFF_LOOPBACK != 0 {
				i.Flags |= net.FlagLoopback
			}
		}},
	} {
		if err := unix.IoctlIfreq(fd, ask.what, r); err != nil {
			return nil, err
		}
		ask.take()
	}
	if i.Flags&net.FlagLoopback == 0 {
		i.HardwareAddr = hardwareAddress(fd, name)
	}
	return i, nil
}

// queueCounts reads sysfs, which lists the queues in use, and then asks the driver. virtio-net counts as combined a queue that only
// receives while a program is attached. An interface has at least one queue of each kind.
func queueCounts(fd int, nic NIC) (rx, tx int) {
	if dir, err := sysfsDir(nic); err == nil {
		// Glob only fails on a bad pattern.
		rxDirs, _ := filepath.Glob(filepath.Join(dir, "queues", "rx-*"))
		txDirs, _ := filepath.Glob(filepath.Join(dir, "queues", "tx-*"))
		rx, tx = len(rxDirs), len(txDirs)
	}
	if rx == 0 || tx == 0 {
		c := ethtoolChannels{cmd: unix.ETHTOOL_GCHANNELS}
		if askEthtool(fd, nic.Name, &c) == nil {
			rx, tx = max(rx, int(c.rxCount+c.combinedCount)), max(tx, int(c.txCount+c.combinedCount))
		}
	}
	return max(rx, 1), max(tx, 1)
}

// sysfsDir returns the interface's sysfs directory. It checks that the directory belongs to this interface. /sys shows the network
// namespace of the process that mounted it, and there may be another interface of this name there.
func sysfsDir(nic NIC) (string, error) {
	dir := filepath.Join("/sys/class/net", nic.Name)
	index, err := readNumber(filepath.Join(dir, "ifindex"))
	if err != nil {
		return "", err
	}
	mac, err := os.ReadFile(filepath.Join(dir, "address"))
	if err != nil {
		return "", err
	}
	if index != uint64(nic.Index) || (len(nic.MAC) != 0 && strings.TrimSpace(string(mac)) != nic.MAC.String()) {
		return "", errors.New("/sys shows another network namespace: mount sysfs inside this one")
	}
	return dir, nil
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}
