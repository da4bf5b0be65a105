package conformance

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
)

type someType struct{}

func (someType) Value(int, *someType, []byte, string)        {}
func (*someType) Pointer(context.Context, map[string]int)    {}
func (*someType) Nothing([4]byte, any, ...io.Writer)         {}
func (*someType) hidden(*someType)                           {}
func someFunction(_ uint, _ func(), _ chan int, _ io.Writer) {}

func TestNilArguments(t *testing.T) {
	got := NilArguments((*someType)(nil), someFunction)
	want := []string{
		"someFunction 2", "someFunction 3", "someFunction 4", "someType.Pointer 1", "someType.Pointer 2", "someType.Value 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	err := CheckNil(map[string]int{"someType.Pointer 1": 0, "someType.Value 1": 0}, (*someType)(nil))
	if err == nil || !strings.Contains(err.Error(), "someType.Pointer 2 has no test; someType.Value 1 is no argument that can be nil; someType.Value 2 has no test") {
		t.Error(err)
	}
	(*someType)(nil).hidden(nil)
}
