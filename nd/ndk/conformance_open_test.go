package ndk

import (
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/internal/verbs"
)

// openRows has the statuses that a function may return beyond those of its public page, if the page leaves the list open and the
// project has no row for the function.
var openRows = map[string]provoke{
	"Adapter/NDK_FN_QUERY_ADAPTER_INFO/OTHER": func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		r.removeInterface(t)
		_, s := r.a.QueryInfo()
		want(t, "query of an adapter that is gone", s, StatusDeviceRemoved)
		return noStatus
	},
	"CQ/NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION/OTHER": func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		e := newEnd(t, r.a, 64)
		r.removeInterface(t)
		want(t, "moderation on an adapter that is gone", e.cq.ControlInterruptModeration(1, 2), StatusDeviceRemoved)
		return noStatus
	},
	"SharedEndpoint/NDK_FN_GET_SHARED_ENDPOINT_LOCAL_ADDRESS/OTHER": func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		e, s := r.a.CreateSharedEndpoint(netipPort(r.a, 0), nil, nil)
		defer closed(t, created(t, e, s).Close)
		r.removeInterface(t)
		_, s = e.LocalAddress()
		want(t, "the address on an adapter that is gone", s, StatusDeviceRemoved)
		return noStatus
	},
	"Callback/NDK_FN_CREATE_COMPLETION/OTHER": func(t *testing.T, r *rig) Status {
		for r.a.verbs.Objects.Take(verbs.ObjectPD) {
		}
		said := make(chan Status, 2)
		pd, s := r.a.CreatePD(func(_ any, s Status, pd *PD) {
			if pd != nil {
				t.Error("an object although it failed")
			}
			said <- s
		}, nil)
		want(t, "create", s, StatusPending)
		want(t, "callback", receive(t, "callback", said), StatusInsufficientResources)
		r.a.sync()
		if pd != nil || len(said) != 0 {
			t.Errorf("object %v, and %d more callbacks", pd, len(said))
		}
		return noStatus
	},
	"Callback/NDK_FN_REQUEST_COMPLETION/OTHER": func(t *testing.T, r *rig) Status {
		p := newEnd(t, r.a, 64).dial(t, netipPort(r.b, 9)) // no listener has this port
		want(t, "connect", p.inline, StatusPending)
		want(t, "callback", p.finish(t), StatusConnectionRefused)
		return noStatus
	},
}

// opened gives each marked row OTHER the test of another row: the project's first failing row of the same function, whose status
// the public page does not list.
func opened(t *testing.T, table *conformance.Table, tests map[string]provoke) {
	t.Helper()
	rows := table.Tested("NDK")
	for _, row := range rows {
		if e, ok := table.Exception(row); !ok || e.Mark != conformance.SameCall || row.Status != "OTHER" {
			continue
		}
		at := slices.IndexFunc(rows, func(r conformance.Row) bool {
			code, ok := r.Value()
			return r.Object == row.Object && r.Method == row.Method && r.Basis == "project" && ok && Status(code).Failed()
		})
		if at < 0 {
			t.Fatalf("%s is marked to be another row's, and there is none", row.Key())
		}
		code, _ := rows[at].Value()
		if slices.ContainsFunc(table.Rows, func(r conformance.Row) bool {
			return r.Object == row.Object && r.Method == row.Method && r.Basis == "doc" && r.Code == rows[at].Code
		}) {
			t.Errorf("%s: the public page lists %s", row.Key(), Status(code).Name())
		}
		provoke := tests[rows[at].Key()]
		tests[row.Key()] = func(t *testing.T, r *rig) Status {
			want(t, rows[at].Condition, provoke(t, r), Status(code))
			return noStatus
		}
	}
}
