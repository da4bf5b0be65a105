package ndk

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// onlyND lists the fields of nd.AdapterConfig that AdapterConfig lacks, with the reasons.
var onlyND = map[string]string{
	"ArenaBytes": "NDKPI has no call that allocates memory",
	"Inspect":    "package nd answers inspection, and its counters have the types of package nd",
}

// TestConfigHasWhatNDHas checks that both packages can open adapters with the same options.
func TestConfigHasWhatNDHas(t *testing.T) {
	own := reflect.TypeFor[AdapterConfig]()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[nd.AdapterConfig]()) {
		mine, ok := own.FieldByName(field.Name)
		switch {
		case !field.IsExported():
		case onlyND[field.Name] != "":
			if ok {
				t.Errorf("AdapterConfig has %s, although %s", field.Name, onlyND[field.Name])
			}
		case !ok:
			t.Errorf("AdapterConfig lacks %s", field.Name)
		case mine.Type != field.Type && mine.Type.Kind() != reflect.String: // strings stand for the constants of package nd
			t.Errorf("%s is a %v, in package nd a %v", field.Name, mine.Type, field.Type)
		}
	}
}

// TestConfigReachesTheEngine opens an adapter with every option, and checks that invalid options are refused.
func TestConfigReachesTheEngine(t *testing.T) {
	var log strings.Builder
	cfg := AdapterConfig{FixedWindow: 7, PeerTimeout: 9, DataCenter: true, NoECN: true, FlightLog: &log}
	if cfg.tune() == nil || cfg.engine.FixedWindow != 7 || cfg.engine.Stalled != 9 || !cfg.engine.DataCenter || !cfg.engine.NoECN || cfg.engine.OnLost == nil {
		t.Errorf("%+v", cfg.engine)
	}
	at := AdapterConfig{Address: netlabtest.Loopback()[0], UDPPort: netlabtest.FreePort(t), Datapath: "udp", Bulk: "off"}
	a, err := OpenAdapter(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*AdapterConfig){
		func(c *AdapterConfig) { c.Bulk = "sometimes" }, func(c *AdapterConfig) { c.FixedWindow = -1 }, func(c *AdapterConfig) { c.FixedWindow = 1<<16 + 1 },
	} {
		wrong := at
		change(&wrong)
		if _, err := OpenAdapter(wrong); !strings.Contains(err.Error(), StatusInvalidParameter.Name()) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
