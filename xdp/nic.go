package xdp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// NIC is what this package needs to know about an interface.
type NIC struct {
	Name     string
	Index    int
	Driver   string // empty when the driver does not tell
	RxQueues int
	TxQueues int
	RxRing   int // descriptors that each receive queue of the driver has, 0 when it does not tell
	MTU      int
	Up       bool
	MAC      net.HardwareAddr
}

// Inspect looks an interface up in the calling thread's network namespace.
func Inspect(name string) (NIC, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return NIC{}, &Error{
			Op: "inspect interface " + strconv.Quote(name), Err: err,
			Hint: "check the name and the network namespace",
		}
	}
	nic := NIC{
		Name:  iface.Name,
		Index: iface.Index,
		MTU:   iface.MTU,
		Up:    iface.Flags&net.FlagUp != 0,
		MAC:   iface.HardwareAddr,
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return NIC{}, &Error{Op: "inspect interface " + strconv.Quote(name), Ifindex: nic.Index, Err: err}
	}
	defer unix.Close(fd)
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

// queueCounts asks sysfs, which shows the queues in use, then the driver: virtio-net counts as combined what it only receives
// on while a program is attached. An interface has at least one queue of each kind.
func queueCounts(fd int, nic NIC) (rx, tx int) {
	if dir, err := sysfsDir(nic); err == nil {
		// The only error of Glob is a bad pattern.
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

// sysfsDir is the interface's directory, checked to belong to this interface: /sys shows the network namespace of
// whoever mounted it, which may have another interface of the same name.
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

// NAPISettings tells the driver's receive loop to stay off interrupts while somebody polls.
type NAPISettings struct {
	DeferHardIRQs uint32        // rounds without packets before interrupts come back
	FlushTimeout  time.Duration // how long until the kernel polls by itself after a round
}

// SuggestedNAPI is the pair that gave preferred busy polling 30 % more packets at MTU 1500 in native mode.
var SuggestedNAPI = NAPISettings{DeferHardIRQs: 2, FlushTimeout: 200 * time.Microsecond}

// ReadNAPI reads the settings of an interface. It fails where sysfs shows another network namespace.
func ReadNAPI(nic NIC) (NAPISettings, error) {
	dir, err := sysfsDir(nic)
	if err != nil {
		return NAPISettings{}, err
	}
	rounds, err := readNumber(filepath.Join(dir, "napi_defer_hard_irqs"))
	timeout, failed := readNumber(filepath.Join(dir, "gro_flush_timeout"))
	return NAPISettings{DeferHardIRQs: uint32(rounds), FlushTimeout: time.Duration(timeout)}, errors.Join(err, failed)
}

// NAPITuning remembers what TuneNAPI changed.
type NAPITuning struct {
	knobs []knob
}

type knob struct {
	path   string
	before uint64
}

// TuneNAPI writes the settings to sysfs. Close restores what was there. A process that dies before leaves them set, and
// the interface then answers later when idle.
func TuneNAPI(nic NIC, set NAPISettings) (*NAPITuning, error) {
	dir, err := sysfsDir(nic)
	if err != nil {
		return nil, &Error{Op: "tune NAPI of " + nic.Name, Ifindex: nic.Index, Err: err}
	}
	t := &NAPITuning{}
	for _, k := range []struct {
		file  string
		value uint64
	}{
		{"napi_defer_hard_irqs", uint64(set.DeferHardIRQs)},
		{"gro_flush_timeout", uint64(set.FlushTimeout.Nanoseconds())},
	} {
		path := filepath.Join(dir, k.file)
		before, err := readNumber(path)
		if err == nil {
			err = writeNumber(path, k.value)
		}
		if err != nil {
			return nil, errors.Join(&Error{
				Op: fmt.Sprintf("write %d to %s", k.value, path), Ifindex: nic.Index, Err: err,
				Hint: "the knobs need root and Linux 5.11 or later",
			}, t.Close())
		}
		t.knobs = append(t.knobs, knob{path, before})
	}
	return t, nil
}

// Close restores the settings. Closing twice is harmless.
func (t *NAPITuning) Close() error {
	var errs []error
	for _, k := range t.knobs {
		if err := writeNumber(k.path, k.before); err != nil {
			errs = append(errs, fmt.Errorf("xdp: restore %s to %d: %w", k.path, k.before, err))
		}
	}
	t.knobs = nil
	return errors.Join(errs...)
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

func writeNumber(path string, value uint64) error {
	return os.WriteFile(path, []byte(strconv.FormatUint(value, 10)), 0o644)
}
