package sim

import "fmt"

// Shrink reduces a failing world as long as it still fails in any way: fewer faults, requests, sessions, hosts and engines. tries
// bounds the number of worlds.
func Shrink(seed uint64, o Options, tries int) Options {
	o.Trace = nil
	fails := func(with Options) (Report, bool) {
		if tries--; tries < 0 {
			return Report{}, false
		}
		r, err := Run(seed, with)
		return r, err != nil
	}
	first, failed := fails(o)
	if !failed {
		return o
	}
	o.Hosts, o.Sessions = first.Hosts, first.Sessions
	if o.Requests == 0 {
		o.Requests = mostRequests
	}
	if o.Engines == 0 {
		o.Engines = mostEngines
	}
	if with := o; !o.Plain {
		with.Plain = true
		if _, failed := fails(with); failed {
			o = with
		}
	}
	for f := range numFaults {
		with := o
		if with.Without = o.Without.With(f); first.Happened[f] == 0 {
			continue
		}
		if _, failed := fails(with); failed {
			o = with
		}
	}
	for smaller := true; smaller; {
		smaller = false
		for _, size := range []func(*Options) *int{
			func(o *Options) *int { return &o.Sessions },
			func(o *Options) *int { return &o.Requests },
			func(o *Options) *int { return &o.Hosts },
			func(o *Options) *int { return &o.Engines },
		} {
			with := o
			n := size(&with)
			if *n /= 2; *n == 0 {
				continue
			}
			if _, failed := fails(with); failed {
				o, smaller = with, true
			}
		}
	}
	return o
}

// Flags returns the options as flags of this package's test, to replay a run.
func (o *Options) Flags() string {
	return fmt.Sprintf("-sim.plain=%v -sim.hosts=%d -sim.engines=%d -sim.sessions=%d -sim.requests=%d -sim.without='%v'", o.Plain, o.Hosts, o.Engines, o.Sessions, o.Requests, o.Without)
}
