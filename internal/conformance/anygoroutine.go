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

// AnyGoroutine calls every exported method of objects from many goroutines concurrently, with arguments chosen by type. It lets the
// race detector check objects that are safe for concurrent use. Results are ignored.
type AnyGoroutine struct {
	// Arguments returns a value for the parameter of a method, named as "QueuePair.Send". It must know every parameter.
	Arguments func(method string, t reflect.Type, rng *rand.Rand) (v any, known bool)
	// Discard receives the results of methods, to close new objects.
	Discard func(v any)
	// Never lists methods that are not called, with the reason.
	Never map[string]string
	// Last lists methods that end their object. A goroutine calls them at the end of its time, while other goroutines may still use
	// the object.
	Last []string

	called sync.Map // method name to *atomic.Int64
}

// Run calls the methods of the objects for a time, from several goroutines for each object.
func (a *AnyGoroutine) Run(d time.Duration, seed uint64, objects ...any) error {
	const goroutines = 3 // for each object
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

// Missing lists the methods of the types, given by nil pointers, that no run has called.
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
