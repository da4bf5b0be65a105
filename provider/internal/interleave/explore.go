//go:build interleave

package interleave

import (
	"fmt"
	"iter"
	"strings"
)

// Run is one execution of a scenario: goroutines that take steps in an order that the explorer chose.
type Run struct {
	threads []*thread
	current *thread // takes its step now
	steps   int
	quiet   bool   // operations are not steps
	state   uint64 // hash of all histories and all variables

	stuck func() bool   // called if no goroutine can take a step; returns true if one can afterwards
	check func() string // called when every goroutine has ended or waits forever; returns a failure, or nothing
	over  func()        // ends waiting goroutines

	prefix      []uint8 // which goroutines take the first steps; at the end, all steps
	interrupted int     // number of switches from a goroutine that could go on
	last        *thread
	failure     string
}

type thread struct {
	name    string
	index   uint8
	next    func() (func() bool, bool)
	yield   func(func() bool) bool
	ready   func() bool // whether the next step can be taken; nil for always
	ended   bool
	served  bool   // may still wait at the end of the run
	behind  bool   // called Gosched, and no other goroutine has taken a step yet
	history uint64 // hash of everything it has read
}

// active is the run that takes steps now, or nil. Only one run is active at a time.
var active *Run

// Go adds a goroutine to the run. It must end.
func (r *Run) Go(name string, f func()) { r.add(name, f) }

func (r *Run) add(name string, f func()) *thread {
	t := &thread{name: name, index: uint8(len(r.threads))}
	t.next, _ = iter.Pull(func(yield func(func() bool) bool) {
		t.yield = yield
		if !yield(nil) {
			return
		}
		f()
	})
	t.history = mix(uint64(t.index)+1, 0x9e3779b97f4a7c15)
	r.state += mix(t.history, 1)
	r.threads = append(r.threads, t)
	t.ready, _ = t.next()
	return t
}

// Stuck sets the function that is called if no goroutine can take a step. It returns true if a goroutine can take a step afterwards.
func (r *Run) Stuck(f func() bool) { r.stuck = f }

// Check sets the function that is called at the end of the run. It returns a failure, or nothing.
func (r *Run) Check(f func() string) { r.check = f }

// End sets the function that ends waiting goroutines. Operations are not steps while it runs.
func (r *Run) End(f func()) { r.over = f }

// Fail ends the exploration with a failure.
func (r *Run) Fail(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

// Name returns the name of the goroutine that takes its step now.
func (r *Run) Name() string {
	if r.current == nil {
		return ""
	}
	return r.current.name
}

// AtOnce runs f without steps in between.
func (r *Run) AtOnce(f func()) {
	quiet := r.quiet
	r.quiet = true
	f()
	r.quiet = quiet
}

// Wait blocks the calling goroutine until ready returns true. ready may depend only on state that steps change.
func (r *Run) Wait(ready func() bool) { step(ready) }

// step ends the previous step and waits until the next one is chosen and can be taken. It reports whether steps are counted.
func step(ready func() bool) bool {
	r := active
	if r == nil || r.current == nil || r.quiet {
		return r != nil && r.current != nil
	}
	r.current.yield(ready)
	return active != nil
}

func (r *Run) yield() {
	if r.current != nil && !r.quiet {
		r.current.behind = true
		r.current.yield(nil)
	}
}

func (v *variable) read() {
	if step(nil) {
		v.touched(false)
	}
}

func (v *variable) write() {
	if step(nil) {
		v.touched(true)
	}
}

func (v *variable) wrote() { v.touched(true) }

// touched records that the current goroutine has read the variable, and perhaps written it. A goroutine's next step depends only on
// the variables that it has read. So equal histories mean equal states, and no state is explored twice.
func (v *variable) touched(wrote bool) {
	r := active
	t := r.current
	r.saw(t, v.written+2)
	if wrote {
		if v.written != 0 {
			r.state -= mix(v.written, 2)
		}
		v.written = mix(t.history, 3)
		r.state += mix(v.written, 2)
	}
}

// saw adds to a goroutine's history.
func (r *Run) saw(t *thread, what uint64) {
	r.state -= mix(t.history, 1)
	t.history = mix(t.history, what)
	r.state += mix(t.history, 1)
}

// mix is a hash of two words (the finalizer of SplitMix64).
func mix(a, b uint64) uint64 {
	x := a*0xbf58476d1ce4e5b9 + b
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Bounds of an exploration.
type Bounds struct {
	Interruptions int // switches from a goroutine that could go on; negative for no limit
	Steps         int // steps of one run; more are a failure
}

// Result is the result of an exploration.
type Result struct {
	Runs, States, Deepest int
	Failure               string // the failure, and the order of steps that leads to it; empty if none
}

// Explore runs a scenario in every order of steps up to the bounds, until one of them fails. start makes the scenario anew.
func Explore(b Bounds, start func(r *Run)) (res Result) {
	seen := map[uint64]int{} // least number of interruptions with which each state was reached
	todo := [][]uint8{nil}
	for len(todo) > 0 {
		prefix := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		r := &Run{prefix: prefix}
		active = r
		start(r)
		res.Runs++
		todo = r.play(b, seen, todo)
		res.Deepest = max(res.Deepest, r.steps)
		if r.failure != "" {
			res.Failure = r.failure + "\n" + r.describe()
			break
		}
	}
	res.States = len(seen)
	return res
}

// able lists the goroutines that can take a step, beginning with the goroutine that took the last step.
func (r *Run) able(into []*thread) []*thread {
	collect := func(behind bool) {
		for i := range r.threads {
			t := r.threads[i]
			if r.last != nil { // in order, from the last one on
				t = r.threads[(int(r.last.index)+i)%len(r.threads)]
			}
			if !t.ended && t.behind == behind && (t.ready == nil || t.ready()) {
				into = append(into, t)
			}
		}
	}
	if collect(false); len(into) == 0 {
		collect(true)
	}
	return into
}

// play takes steps until no goroutine can. When it reaches a new state, it adds the alternative next steps to todo.
func (r *Run) play(b Bounds, seen map[uint64]int, todo [][]uint8) [][]uint8 {
	defer func() { active = nil }()
	var path []uint8
	var room [16]*thread
	known := false // the state was explored before: this run is only brought to its end
	for r.failure == "" {
		able := r.able(room[:0])
		if len(able) == 0 {
			if r.stuck != nil && r.stuck() {
				r.state = mix(r.state, 4) // time has passed
				continue
			}
			break
		}
		if r.steps++; r.steps > b.Steps {
			r.Fail("no end after %d steps", b.Steps)
			break
		}
		pick := able[0]
		if depth := len(path); depth < len(r.prefix) {
			pick = r.threads[r.prefix[depth]]
		} else if !known {
			key := r.state
			if b.Interruptions >= 0 && r.last != nil {
				key = mix(key, uint64(r.last.index)+5)
			}
			for _, t := range r.threads {
				if t.behind {
					key = mix(key, uint64(t.index)+100)
				}
			}
			if least, ok := seen[key]; ok && least <= r.interrupted {
				known = true
			} else {
				seen[key] = r.interrupted
				for _, t := range able[1:] {
					if b.Interruptions < 0 || r.interrupted+r.interrupts(able, t) <= b.Interruptions {
						todo = append(todo, append(path[:len(path):len(path)], t.index))
					}
				}
			}
		}
		path = append(path, pick.index)
		r.interrupted += r.interrupts(able, pick)
		r.take(pick)
	}
	r.prefix = path
	for _, t := range r.threads {
		if !t.ended && !t.served {
			r.Fail("%s waits for ever", t.name)
		}
	}
	if r.failure == "" && r.check != nil {
		r.AtOnce(func() {
			if what := r.check(); what != "" {
				r.Fail("%s", what)
			}
		})
	}
	if r.failure == "" {
		r.end()
	}
	return todo
}

// interrupts returns 1 if t goes on although the goroutine of the last step could.
func (r *Run) interrupts(able []*thread, t *thread) int {
	if r.last != nil && able[0] == r.last && t != r.last {
		return 1
	}
	return 0
}

// take lets a goroutine take its step.
func (r *Run) take(t *thread) {
	for _, other := range r.threads {
		if other != t {
			other.behind = false
		}
	}
	r.current, r.last = t, t
	r.saw(t, 1) // a step without access counts, too
	defer func() {
		r.current = nil
		if p := recover(); p != nil {
			r.Fail("%s panics: %v", t.name, p)
		}
	}()
	ready, more := t.next()
	t.ready, t.ended = ready, !more
}

// end ends the goroutines that wait forever.
func (r *Run) end() {
	active = nil
	if r.over != nil {
		r.over()
	}
	for _, t := range r.threads {
		if !t.ended {
			if _, more := t.next(); more {
				r.Fail("%s does not end", t.name)
			}
		}
	}
}

// describe returns the order of the steps.
func (r *Run) describe() string {
	var b strings.Builder
	for i := 0; i < len(r.prefix); {
		n := 1
		for i+n < len(r.prefix) && r.prefix[i+n] == r.prefix[i] {
			n++
		}
		fmt.Fprintf(&b, "%s %d, ", r.threads[r.prefix[i]].name, n)
		i += n
	}
	return strings.TrimSuffix(b.String(), ", ")
}
