package netlab

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// These are numbers of linux/ethtool_netlink.h. The netlink interface of ethtool replaces its ioctl, which would need unsafe.
const (
	ethtoolFamily         = "ethtool"
	ethtoolFeaturesSet    = 12 // ETHTOOL_MSG_FEATURES_SET
	ethtoolFeaturesHeader = 1  // ETHTOOL_A_FEATURES_HEADER
	ethtoolHeaderDevName  = 2  // ETHTOOL_A_HEADER_DEV_NAME
	ethtoolHeaderFlags    = 3  // ETHTOOL_A_HEADER_FLAGS
	ethtoolOmitReply      = 2  // ETHTOOL_FLAG_OMIT_REPLY
	ethtoolFeaturesWanted = 3  // ETHTOOL_A_FEATURES_WANTED
	ethtoolBitsetBits     = 3  // ETHTOOL_A_BITSET_BITS
	ethtoolBitsetBit      = 1  // ETHTOOL_A_BITSET_BITS_BIT
	ethtoolBitName        = 2  // ETHTOOL_A_BITSET_BIT_NAME
)

// offloads are the offloads that ethtool -K tso off gso off gro off tx off rx off turns off on a veth link. VLAN acceleration is
// turned off, too, because it would hide tags from XDP programs. The names are from net/ethtool/common.c.
var offloads = []string{
	"tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation",
	"tx-udp-segmentation", "tx-generic-segmentation", "rx-gro",
	"tx-checksum-ip-generic", "tx-checksum-sctp", "rx-checksum",
	"tx-vlan-hw-insert", "rx-vlan-hw-parse",
}

func (n *Namespace) disableOffloads(device string) error {
	return n.Do(func() error {
		header := nl.NewRtAttr(ethtoolFeaturesHeader|unix.NLA_F_NESTED, nil)
		header.AddRtAttr(ethtoolHeaderDevName, nl.ZeroTerminated(device))
		header.AddRtAttr(ethtoolHeaderFlags, nl.Uint32Attr(ethtoolOmitReply))
		wanted := nl.NewRtAttr(ethtoolFeaturesWanted|unix.NLA_F_NESTED, nil)
		bits := wanted.AddRtAttr(ethtoolBitsetBits|unix.NLA_F_NESTED, nil)
		for _, name := range offloads {
			// A bit without a value is cleared.
			bit := bits.AddRtAttr(ethtoolBitsetBit|unix.NLA_F_NESTED, nil)
			bit.AddRtAttr(ethtoolBitName, nl.ZeroTerminated(name))
		}
		if _, err := genetlink.Execute(ethtoolFamily, ethtoolFeaturesSet, unix.NLM_F_ACK, header, wanted); err != nil {
			return fmt.Errorf("turn off offloads of %s (needs Linux 5.6 with CONFIG_ETHTOOL_NETLINK): %w", device, err)
		}
		return nil
	})
}

// setIPv6 turns IPv6 on or off on a device, without duplicate address detection. The kernel sends neighbour solicitations from the
// link-local address. Duplicate address detection takes up to two seconds, and meanwhile two of the three solicitations are not sent.
// /proc/sys/net shows the namespace of the thread that opens it.
func (n *Namespace) setIPv6(device string, on bool) error {
	conf := "/proc/sys/net/ipv6/conf/" + device
	return n.Do(func() error {
		if on {
			return errors.Join(os.WriteFile(conf+"/accept_dad", []byte("0"), 0), os.WriteFile(conf+"/disable_ipv6", []byte("0"), 0))
		}
		err := os.WriteFile(conf+"/disable_ipv6", []byte("1"), 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil // the kernel has no IPv6
		}
		return err
	})
}

// setRPS writes the receive packet steering mask of each queue. /sys shows the namespace in which it was mounted, so setRPS mounts
// a new instance inside the namespace, which is never attached.
func (n *Namespace) setRPS(device string, queues int, mask string) error {
	return n.Do(func() error {
		sys, err := detachedSysfs()
		if err != nil {
			return fmt.Errorf("set RPS of %s: mount sysfs: %w%s", device, err, remedy(err))
		}
		defer unix.Close(sys)
		for queue := range queues {
			path := fmt.Sprintf("devices/virtual/net/%s/queues/rx-%d/rps_cpus", device, queue)
			if err := writeAt(sys, path, mask); err != nil {
				return fmt.Errorf("set RPS of %s queue %d to %q: %w", device, queue, mask, err)
			}
		}
		return nil
	})
}

func detachedSysfs() (int, error) {
	fs, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
}

func writeAt(dir int, path, value string) error {
	fd, err := unix.Openat(dir, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(value))
	return errors.Join(err, unix.Close(fd))
}

// prepareLoopback sets lo up and marks it with this process's id, so that Leftovers knows the owner of the namespace.
func (n *Namespace) prepareLoopback() error {
	handle, err := n.handle()
	if err != nil {
		return err
	}
	defer handle.Close()
	lo, err := handle.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := handle.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := handle.LinkSetAlias(lo, ownAlias()); err != nil {
		return fmt.Errorf("mark lo: %w", err)
	}
	return nil
}
