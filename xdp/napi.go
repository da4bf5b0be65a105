package xdp

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// NAPISettings configures the driver's receive loop for busy polling: while a process polls, interrupts stay off.
type NAPISettings struct {
	DeferHardIRQs uint32        // polls without packets before interrupts are enabled again
	FlushTimeout  time.Duration // time after which the kernel polls by itself
}

// busyPollNAPI has the settings recommended for preferred busy polling (Linux 5.11, SO_PREFER_BUSY_POLL). The additional nanosecond
// identifies settings of this package, because a killed process cannot restore the old ones.
var busyPollNAPI = NAPISettings{DeferHardIRQs: 2, FlushTimeout: 200*time.Microsecond + time.Nanosecond}

// ReadNAPI reads the settings of an interface. It fails if sysfs shows another network namespace.
func ReadNAPI(nic NIC) (NAPISettings, error) {
	dir, err := sysfsDir(nic)
	if err != nil {
		return NAPISettings{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return NAPISettings{}, err
	}
	defer func() { _ = root.Close() }() // read only, so an error does not matter
	return readNAPI(root)
}

// Files of the settings in the sysfs directory of an interface.
const deferFile, flushFile = "napi_defer_hard_irqs", "gro_flush_timeout"

func readNAPI(dir *os.Root) (NAPISettings, error) {
	rounds, err := readNumberIn(dir, deferFile)
	timeout, failed := readNumberIn(dir, flushFile)
	return NAPISettings{DeferHardIRQs: uint32(rounds), FlushTimeout: time.Duration(timeout)}, errors.Join(err, failed)
}

func writeNAPI(dir *os.Root, set NAPISettings) error {
	return errors.Join(
		writeNumberIn(dir, deferFile, uint64(set.DeferHardIRQs)),
		writeNumberIn(dir, flushFile, uint64(set.FlushTimeout.Nanoseconds())),
	)
}

// NAPITuning holds the settings that TuneNAPI changed.
type NAPITuning struct {
	nic    NIC
	dir    *os.Root // sysfs directory of the interface; kept open, because another interface may take its name
	before NAPISettings
	done   bool
}

// TuneNAPI configures an interface of the calling thread's network namespace for busy polling, through sysfs: 2 polls and 200 us.
// Use it only if Info.BusyPoll is set for the interface's sockets, because packets of other sockets wait for the time-out. Close
// restores the old settings. If the process is killed, the settings stay, and an idle interface answers up to 200 us later. The
// next TuneNAPI recognizes them, and its Close restores the kernel's default of 0.
func TuneNAPI(nic NIC) (*NAPITuning, error) {
	t := &NAPITuning{nic: nic}
	dir, err := sysfsDir(nic)
	if err == nil {
		t.dir, err = os.OpenRoot(dir)
	} else {
		err = t.openInOwnSysfs(err)
	}
	if err != nil {
		return nil, t.fail("find it in sysfs", err)
	}
	if t.before, err = readNAPI(t.dir); err != nil {
		t.done = true
		return nil, errors.Join(t.fail("read its settings", err), t.dir.Close())
	}
	if t.before == busyPollNAPI {
		t.before = NAPISettings{}
	}
	if err := writeNAPI(t.dir, busyPollNAPI); err != nil {
		return nil, errors.Join(t.fail("write its settings", err), t.Close())
	}
	return t, nil
}

func (t *NAPITuning) fail(what string, err error) error {
	return &Error{
		Op: "tune NAPI of " + t.nic.Name + " for busy polling: " + what, Ifindex: t.nic.Index, Err: err,
		Hint: "it needs root and Linux 5.11 or later",
	}
}

// openInOwnSysfs opens the directory in a sysfs that shows the thread's network namespace, without attaching it anywhere. It is
// used if /sys shows another namespace, for the given reason. It needs CAP_SYS_ADMIN.
func (t *NAPITuning) openInOwnSysfs(why error) error {
	fs, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return errors.Join(why, err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return errors.Join(why, err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return errors.Join(why, err)
	}
	defer unix.Close(mount) // open files keep it alive
	if t.dir, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d/class/net/%s", mount, t.nic.Name)); err != nil {
		return errors.Join(why, err)
	}
	return nil
}

// Close restores the settings, unless the interface is gone. Further calls have no effect.
func (t *NAPITuning) Close() error {
	if t.done {
		return nil
	}
	t.done = true
	err := writeNAPI(t.dir, t.before)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		err = nil
	}
	if err != nil {
		err = t.fail(fmt.Sprintf("restore %+v", t.before), err)
	}
	return errors.Join(err, t.dir.Close())
}
