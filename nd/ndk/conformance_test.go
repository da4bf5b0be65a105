package ndk

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/internal/verbs"
)

// provoke makes a call that must return the status of a row, directly or through its callback, and returns the status. For rows
// without a status number it makes all checks itself.
type provoke func(t *testing.T, r *rig) Status

// noStatus is the return value for rows without a status number.
const noStatus = StatusSuccess

// provokes has a test for each row of the table, apart from exceptions.
var provokes = func() map[string]provoke {
	all := map[string]provoke{}
	for _, m := range []map[string]provoke{adapterRows, createRows(), memoryRows, queueRows, postRows(), resultRows(), connectRows(), endRows, removedRows, lamRows(), initializeRows(), fastRows(), openRows, tlsRows} {
		maps.Copy(all, m)
	}
	return all
}()

func TestConformance(t *testing.T) {
	t.Parallel()
	everyRow(t, newRig, func(conformance.Row) bool { return true })
}

// movesPackets are the objects whose rows depend on the datapath. Posting does not.
var movesPackets = []string{"CQ", "Connector", "Listener", "Callback"}

// The rows of connections and results hold over AF_XDP as well.
func TestConformanceOverXDP(t *testing.T) {
	t.Parallel()
	everyRow(t, newVethRig, func(r conformance.Row) bool { return slices.Contains(movesPackets, r.Object) && r.Status != "OTHER" })
}

// everyRow tests the wanted rows, each with its own adapters.
func everyRow(t *testing.T, newRig func(testing.TB) *rig, wanted func(conformance.Row) bool) {
	t.Helper()
	table, err := conformance.Load("../testdata")
	must(t, err)
	tests := maps.Clone(provokes)
	opened(t, table, tests)
	must(t, conformance.Check(table, "NDK", tests))
	for _, row := range table.Tested("NDK") {
		if !wanted(row) {
			continue
		}
		t.Run(row.Key(), func(t *testing.T) {
			t.Parallel()
			code, _ := row.Value()
			want(t, row.Condition, tests[row.Key()](t, newRig(t)), Status(code))
		})
	}
}

// closer is any object.
type closer interface {
	Close(done CloseCompletion, context any) Status
}

var adapterRows = map[string]provoke{
	"Adapter/OPEN_NDK_ADAPTER_HANDLER/NDIS_STATUS_SUCCESS": func(t *testing.T, r *rig) Status {
		if i, s := r.a.QueryInfo(); s != StatusSuccess || i.Version != Offered {
			t.Errorf("%+v %s", i, s.Name())
		}
		return noStatus
	},
	"Adapter/OPEN_NDK_ADAPTER_HANDLER/NDIS_STATUS_BAD_VERSION": func(t *testing.T, _ *rig) Status {
		for _, v := range []Version{{1, 0}, {3, 0}, {Offered.Major, Offered.Minor + 1}} {
			if s := openStatus(t, AdapterConfig{Address: loopback[0], Version: v, Datapath: "udp"}); s != StatusBadVersion {
				t.Errorf("%v: %s", v, s.Name())
			}
		}
		return StatusBadVersion
	},
	"Adapter/OPEN_NDK_ADAPTER_HANDLER/NDIS_STATUS_ADAPTER_NOT_READY": func(t *testing.T, r *rig) Status {
		// Another adapter uses the address and port, and so AF_XDP.
		return openStatus(t, AdapterConfig{Address: r.addr[0], UDPPort: r.port, Datapath: "generic"})
	},
	"Adapter/OPEN_NDK_ADAPTER_HANDLER/NDIS_STATUS_RESOURCES": func(t *testing.T, _ *rig) Status { return starvedStatus(t) },
	"Adapter/CLOSE_NDK_ADAPTER_HANDLER/(none)": func(t *testing.T, r *rig) Status {
		must(t, r.a.Close())
		must(t, r.a.Close())
		return noStatus
	},
	"Adapter/NDK_FN_QUERY_ADAPTER_INFO/STATUS_SUCCESS": func(_ *testing.T, r *rig) Status {
		_, s := r.a.QueryInfo()
		return s
	},
	"(every NDK object)/NDK_FN_CLOSE_OBJECT/STATUS_SUCCESS": func(t *testing.T, r *rig) Status {
		pd, s := r.a.CreatePD(nil, nil)
		return created(t, pd, s).Close(func(any) { t.Error("called back") }, nil)
	},
	"(every NDK object)/NDK_FN_CLOSE_OBJECT/STATUS_PENDING": func(t *testing.T, r *rig) Status {
		pd, s := r.a.CreatePD(nil, nil)
		mr, s2 := created(t, pd, s).CreateMR(false, nil, nil)
		over := make(chan struct{})
		s = pd.Close(func(any) { close(over) }, nil)
		want(t, "close", created(t, mr, s2).Close(nil, nil), StatusSuccess)
		receive(t, "close", over)
		return s
	},
	"Callback/NDK_FN_CLOSE_COMPLETION/(none)": func(t *testing.T, r *rig) Status {
		cq, s := r.a.CreateCQ(1, nil, nil, nil, nil)
		e := newEnd(t, r.a, 64)
		qp, s2 := e.pd.CreateQP(QPConfig{ReceiveCQ: created(t, cq, s), InitiatorCQ: cq}, nil, nil)
		over := make(chan any, 2)
		want(t, "close", cq.Close(func(context any) { over <- context }, 5), StatusPending)
		closed(t, created(t, qp, s2).Close)
		if context := receive(t, "close", over); context != 5 || len(over) != 0 {
			t.Errorf("context %v, and %d more", context, len(over))
		}
		return noStatus
	},
}

// openStatus returns the status of an OpenAdapter that must fail.
func openStatus(t *testing.T, cfg AdapterConfig) (s Status) {
	t.Helper()
	a, err := OpenAdapter(cfg)
	if err == nil {
		must(t, a.Close())
	}
	errors.As(err, &s)
	return s
}

// createTest is the test of a create function: how to call it, and which objects it counts.
type createTest[T any] struct {
	key  string
	kind verbs.ObjectKind
	call func(e *end, done CreateCompletion[*T], context any) (*T, Status)
}

// add adds the rows that all create functions have.
func (c createTest[T]) add(rows map[string]provoke) {
	one := func(t *testing.T, e *end) Status {
		made, s := c.call(e, nil, nil)
		if s == StatusSuccess {
			closed(t, any(made).(closer).Close)
		}
		return s
	}
	rows[c.key+"/STATUS_SUCCESS"] = func(t *testing.T, r *rig) Status { return one(t, newEnd(t, r.a, 64)) }
	rows[c.key+"/STATUS_PENDING"] = func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		got := make(chan *T, 2)
		now, s := c.call(e, func(context any, s Status, made *T) {
			if context != 9 || s != StatusSuccess || made == nil {
				t.Errorf("callback: %v %s", context, s.Name())
			}
			got <- made
		}, 9)
		if now != nil {
			t.Error("an object before the callback")
		}
		closed(t, any(receive(t, "callback", got)).(closer).Close)
		return s
	}
	rows[c.key+"/STATUS_INSUFFICIENT_RESOURCES"] = func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		used := r.a.verbs.Objects.Used(c.kind)
		for r.a.verbs.Objects.Take(c.kind) {
		}
		s := one(t, e)
		for r.a.verbs.Objects.Used(c.kind) > used {
			r.a.verbs.Objects.Give(c.kind)
		}
		return s
	}
	rows[c.key+"/STATUS_DEVICE_REMOVED"] = func(t *testing.T, _ *rig) Status {
		r := newVethRig(t)
		e := newEnd(t, r.a, 64)
		r.removeInterface(t)
		return one(t, e)
	}
}

func createRows() map[string]provoke {
	rows := map[string]provoke{}
	srqConfig := func(e *end) QPConfig { return QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq} }
	createTest[CQ]{"Adapter/NDK_FN_CREATE_CQ", verbs.ObjectCQ, func(e *end, done CreateCompletion[*CQ], context any) (*CQ, Status) {
		return e.a.CreateCQ(16, nil, nil, done, context)
	}}.add(rows)
	createTest[PD]{"Adapter/NDK_FN_CREATE_PD", verbs.ObjectPD, func(e *end, done CreateCompletion[*PD], context any) (*PD, Status) {
		return e.a.CreatePD(done, context)
	}}.add(rows)
	createTest[Connector]{"Adapter/NDK_FN_CREATE_CONNECTOR", verbs.ObjectConnector, func(e *end, done CreateCompletion[*Connector], context any) (*Connector, Status) {
		return e.a.CreateConnector(done, context)
	}}.add(rows)
	createTest[Listener]{"Adapter/NDK_FN_CREATE_LISTENER", verbs.ObjectListener, func(e *end, done CreateCompletion[*Listener], context any) (*Listener, Status) {
		return e.a.CreateListener(func(any, *Connector) {}, nil, done, context)
	}}.add(rows)
	createTest[SharedEndpoint]{"Adapter/NDK_FN_CREATE_SHARED_ENDPOINT", verbs.ObjectSharedEndpoint, func(e *end, done CreateCompletion[*SharedEndpoint], context any) (*SharedEndpoint, Status) {
		return e.a.CreateSharedEndpoint(netipPort(e.a, 0), done, context)
	}}.add(rows)
	createTest[MR]{"PD/NDK_FN_CREATE_MR", verbs.ObjectMR, func(e *end, done CreateCompletion[*MR], context any) (*MR, Status) {
		return e.pd.CreateMR(false, done, context)
	}}.add(rows)
	createTest[MW]{"PD/NDK_FN_CREATE_MW", verbs.ObjectMW, func(e *end, done CreateCompletion[*MW], context any) (*MW, Status) {
		return e.pd.CreateMW(done, context)
	}}.add(rows)
	createTest[SRQ]{"PD/NDK_FN_CREATE_SRQ", verbs.ObjectSRQ, func(e *end, done CreateCompletion[*SRQ], context any) (*SRQ, Status) {
		return e.pd.CreateSRQ(4, 1, 0, nil, nil, done, context)
	}}.add(rows)
	createTest[QP]{"PD/NDK_FN_CREATE_QP", verbs.ObjectQP, func(e *end, done CreateCompletion[*QP], context any) (*QP, Status) {
		return e.pd.CreateQP(srqConfig(e), done, context)
	}}.add(rows)
	withSRQ := createTest[QP]{"PD/NDK_FN_CREATE_QP_WITH_SRQ", verbs.ObjectQP, func(e *end, done CreateCompletion[*QP], context any) (*QP, Status) {
		return e.pd.CreateQPWithSRQ(e.srq, srqConfig(e), done, context)
	}}
	withSRQ.add(rows)
	maps.Copy(rows, createRefusals)
	return rows
}

var createRefusals = map[string]provoke{
	"Adapter/NDK_FN_CREATE_CQ/STATUS_INVALID_PARAMETER": func(t *testing.T, r *rig) Status {
		_, s := r.a.CreateCQ(0, nil, nil, nil, nil)
		want(t, "depth 0", s, StatusInvalidParameter)
		_, s = r.a.CreateCQ(verbs.MaxCQDepth+1, nil, nil, nil, nil)
		return s
	},
	"Adapter/NDK_FN_CREATE_SHARED_ENDPOINT/STATUS_SHARING_VIOLATION": func(t *testing.T, r *rig) Status {
		one, s := r.a.CreateSharedEndpoint(netipPort(r.a, 700), nil, nil)
		defer closed(t, created(t, one, s).Close)
		_, s = r.a.CreateSharedEndpoint(netipPort(r.a, 700), nil, nil)
		return s
	},
	"Adapter/NDK_FN_CREATE_SHARED_ENDPOINT/STATUS_TOO_MANY_ADDRESSES": func(t *testing.T, r *rig) Status {
		r.useUpPorts(t)
		_, s := r.a.CreateSharedEndpoint(netipPort(r.a, 0), nil, nil)
		return s
	},
	"Adapter/NDK_FN_CREATE_SHARED_ENDPOINT/STATUS_INVALID_ADDRESS": func(_ *testing.T, r *rig) Status {
		_, s := r.a.CreateSharedEndpoint(netipPort(r.b, 0), nil, nil)
		return s
	},
	"PD/NDK_FN_CREATE_SRQ/STATUS_INVALID_PARAMETER": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		_, s := e.pd.CreateSRQ(verbs.MaxSharedDepth+1, 1, 0, nil, nil, nil, nil)
		return s
	},
	"PD/NDK_FN_CREATE_QP/STATUS_INVALID_PARAMETER": func(t *testing.T, r *rig) Status {
		e := newEnd(t, r.a, 64)
		for _, cfg := range []QPConfig{
			{},
			{ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: -1},
			{ReceiveCQ: e.cq, InitiatorCQ: e.cq, InitiatorDepth: verbs.MaxQueueDepth + 1},
			{ReceiveCQ: e.cq, InitiatorCQ: e.cq, MaxReceiveSGE: 1000},
			{ReceiveCQ: e.cq, InitiatorCQ: e.cq, InlineSize: verbs.MaxInline + 1},
		} {
			if _, s := e.pd.CreateQP(cfg, nil, nil); s != StatusInvalidParameter {
				t.Errorf("%+v: %s", cfg, s.Name())
			}
		}
		return StatusInvalidParameter
	},
	"PD/NDK_FN_CREATE_QP_WITH_SRQ/STATUS_INVALID_PARAMETER": func(t *testing.T, r *rig) Status {
		e, other := newEnd(t, r.a, 64), newEnd(t, r.a, 64)
		_, s := e.pd.CreateQPWithSRQ(other.srq, QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq}, nil, nil)
		want(t, "another domain's", s, StatusInvalidParameter)
		_, s = e.pd.CreateQPWithSRQ(e.srq, QPConfig{ReceiveCQ: e.cq, InitiatorCQ: e.cq, InlineSize: 1 << 20}, nil, nil)
		return s
	},
}
