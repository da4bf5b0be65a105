package trace

import (
	"reflect"
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// The sum has every counter of every engine.
func TestAddTakesEveryCounter(t *testing.T) {
	var one, sum Stats
	v := reflect.ValueOf(&one).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(uint64(i + 1))
		case reflect.Array:
			for j := range f.Len() {
				f.Index(j).SetUint(uint64(100*i + j))
			}
		default:
			t.Fatalf("field %s is no counter", v.Type().Field(i).Name)
		}
	}
	for range 3 {
		sum.Add(one)
	}
	got := reflect.ValueOf(sum)
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.Kind() == reflect.Uint64 {
			if got.Field(i).Uint() != 3*f.Uint() {
				t.Errorf("%s: %d", name, got.Field(i).Uint())
			}
			continue
		}
		for j := range f.Len() {
			if got.Field(i).Index(j).Uint() != 3*f.Index(j).Uint() {
				t.Errorf("%s[%d]: %d", name, j, got.Field(i).Index(j).Uint())
			}
		}
	}
}

// Drops are listed by name, without zero counts. Reasons of frames are not among an engine's reasons.
func TestDropNames(t *testing.T) {
	var s Stats
	s.Drops[wire.DropCRC] = 3
	if m := s.DropsByName(); len(m) != 1 || m[wire.DropCRC.String()] != 3 {
		t.Errorf("%v", m)
	}
	names := DropNames()
	if slices.Contains(names, wire.DropEther.String()) || slices.Contains(names, wire.DropPort.String()) || !slices.Contains(names, wire.DropCRC.String()) ||
		slices.Contains(names, wire.DropNone.String()) {
		t.Errorf("%v", names)
	}
}
