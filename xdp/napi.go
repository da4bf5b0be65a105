package xdp

import (
	"errors"
	"path/filepath"
	"time"
)

// NAPISettings says how a driver's receive loop delays interrupts. Both settings are 0 unless an administrator or a program set them.
type NAPISettings struct {
	DeferHardIRQs uint32        // polls without packets before interrupts are enabled again
	FlushTimeout  time.Duration // time after which the kernel polls by itself
}

// ReadNAPI reads the settings of an interface. It fails if sysfs shows another network namespace.
func ReadNAPI(nic NIC) (NAPISettings, error) {
	dir, err := sysfsDir(nic)
	if err != nil {
		return NAPISettings{}, err
	}
	rounds, err := readNumber(filepath.Join(dir, "napi_defer_hard_irqs"))
	timeout, failed := readNumber(filepath.Join(dir, "gro_flush_timeout"))
	return NAPISettings{DeferHardIRQs: uint32(rounds), FlushTimeout: time.Duration(timeout)}, errors.Join(err, failed)
}
