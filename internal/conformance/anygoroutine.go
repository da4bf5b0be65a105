package conformance

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// AnyGoroutine calls every exported method of objects from many goroutines at once, with arguments by type. It is for the race
// detector, for objects whose methods may be called from any goroutine. The results do not matter.
type AnyGoroutine struct {
	// Arguments makes a value for the parameter of a method, named as "QueuePair.Send". A parameter that it does not know must not occur.
	Arguments func(method string, t reflect.Type, rng *rand.Rand) (v any, known bool)
	// Discard takes what methods return: new objects are to be closed.
	Discard func(v any)
	// Never are methods that are not called, and why.
	Never map[string]string
	// Last are methods that end their object: a goroutine calls them when its time is over, while others still have some.
	Last []string

	called sync.Map // of method to *atomic.Int64
}

// Run calls the methods of the objects for a while, from several goroutines for each.
func (a *AnyGoroutine) Run(d time.Duration, seed uint64, objects ...any) error {
	const goroutines = 3 // of each object
	var all sync.WaitGroup
	var mu sync.Mutex
	var wrong error
	start := time.Now()
	for i := range goroutines * len(objects) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			object := reflect.ValueOf(objects[i%len(objects)])
			end := start.Add(d/2 + time.Duration(rng.Int64N(int64(d/2))))
			for over := false; !over; {
				over = time.Now().After(end)
				if err := a.round(object, rng, over); err != nil {
					mu.Lock()
					wrong = err
					mu.Unlock()
					return
				}
			}
		})
	}
	all.Wait()
	return wrong
}

// round calls each method of an object once, in random order: the methods that end it, or all others.
func (a *AnyGoroutine) round(object reflect.Value, rng *rand.Rand, last bool) error {
	t := object.Type()
	for _, i := range rng.Perm(t.NumMethod()) {
		name := methodName(t, i)
		if a.Never[name] != "" || last != slices.Contains(a.Last, name) {
			continue
		}
		m := object.Method(i)
		args := make([]reflect.Value, m.Type().NumIn())
		for k := range args {
			in := m.Type().In(k)
			v, known := a.Arguments(name, in, rng)
			if !known {
				return fmt.Errorf("%s: nobody makes a value of type %v", name, in)
			}
			if args[k] = reflect.Zero(in); v != nil {
				args[k] = reflect.ValueOf(v).Convert(in)
			}
		}
		n, _ := a.called.LoadOrStore(name, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		for _, out := range m.Call(args) {
			if !out.IsZero() {
				a.Discard(out.Interface())
			}
		}
	}
	return nil
}

func methodName(t reflect.Type, i int) string { return t.Elem().Name() + "." + t.Method(i).Name }

// Missing says which methods of the types, given by nil pointers, no run has called.
func (a *AnyGoroutine) Missing(types ...any) error {
	var missing []string
	for _, v := range types {
		t := reflect.TypeOf(v)
		for i := range t.NumMethod() {
			name := methodName(t, i)
			if _, ok := a.called.Load(name); !ok && a.Never[name] == "" {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("never called: %s", strings.Join(missing, ", "))
}
