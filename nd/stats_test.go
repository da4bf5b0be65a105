package nd

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// TestCountersOfEnginesAreExported: Stats contains each counter of the engines exactly once.
func TestCountersOfEnginesAreExported(t *testing.T) {
	var p provider.Stats
	of := reflect.ValueOf(&p).Elem()
	for i := range of.NumField() {
		if f := of.Field(i); f.Kind() == reflect.Uint64 {
			f.SetUint(uint64(1_000_000 + i))
		}
	}
	text, err := json.Marshal(engineStats(&p))
	must(t, err)
	for i := range of.NumField() {
		if f := of.Type().Field(i); f.Type.Kind() == reflect.Uint64 && f.Name != "LatencyNanos" {
			if n := strings.Count(string(text), ":"+strconv.Itoa(1_000_000+i)); n != 1 {
				t.Errorf("%s is exported %d times", f.Name, n)
			}
		}
	}
}
