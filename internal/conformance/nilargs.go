package conformance

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// NilArguments lists the arguments of functions, and of exported methods of types, that can be nil: pointers, functions,
// interfaces, maps and channels. "Connector.Connect 2" is the second argument. Slices and any are not listed, because a nil slice
// is empty and a nil any is a value like others. Types are given by a nil pointer.
func NilArguments(of ...any) (list []string) {
	for _, v := range of {
		t := reflect.TypeOf(v)
		if t.Kind() == reflect.Func {
			name := runtime.FuncForPC(reflect.ValueOf(v).Pointer()).Name()
			list = append(list, nilable(name[strings.LastIndexByte(name, '.')+1:], t, 0)...)
			continue
		}
		for m := range t.Methods() {
			list = append(list, nilable(t.Elem().Name()+"."+m.Name, m.Type, 1)...) // the receiver is the first argument
		}
	}
	slices.Sort(list)
	return list
}

// nilable lists the arguments of a function, from index first, that can be nil.
func nilable(name string, t reflect.Type, first int) (list []string) {
	for i := first; i < t.NumIn(); i++ {
		switch in := t.In(i); in.Kind() {
		case reflect.Interface:
			if in.NumMethod() == 0 {
				continue
			}
			fallthrough
		case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan:
			list = append(list, fmt.Sprintf("%s %d", name, i-first+1))
		default:
		}
	}
	return list
}

// CheckNil compares the list of NilArguments with a table of tests, and returns what the table lacks and what it has too much.
func CheckNil[T any](tests map[string]T, of ...any) error {
	var wrong []string
	want := NilArguments(of...)
	for _, name := range want {
		if _, ok := tests[name]; !ok {
			wrong = append(wrong, name+" has no test")
		}
	}
	for name := range tests {
		if !slices.Contains(want, name) {
			wrong = append(wrong, name+" is no argument that can be nil")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("nil arguments: %s", strings.Join(wrong, "; "))
}
