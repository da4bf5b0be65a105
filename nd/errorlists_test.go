package nd

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrorsNameRemoval: if a call reports that its adapter is closed, its documented errors include that.
func TestErrorsNameRemoval(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	e := newEnd(t, r.a, 64)
	l, err := r.a.CreateListener()
	must(t, err)
	window, err := r.a.CreateMemoryWindow()
	must(t, err)
	must(t, r.a.Close())
	docs, at := docsOf(t), netip.AddrPortFrom(r.addr[0], 0)
	for name, call := range map[string]func() error{
		"Listener.Bind":              func() error { return l.Bind(at) },
		"Listener.Listen":            func() error { return l.Listen(0) },
		"Listener.LocalAddress":      func() error { _, err := l.LocalAddress(); return err },
		"Connector.Bind":             func() error { return e.ctr.Bind(at) },
		"Connector.Reject":           func() error { return e.ctr.Reject(nil) },
		"Connector.LocalAddress":     func() error { _, err := e.ctr.LocalAddress(); return err },
		"Connector.NotifyDisconnect": func() error { return e.ctr.NotifyDisconnect(t.Context()) },
		"Connector.Disconnect":       func() error { return e.ctr.Disconnect(t.Context()) },
		"Connector.CompleteConnect":  func() error { return e.ctr.CompleteConnect(t.Context()) },
		"QueuePair.Send":             func() error { return e.qp.Send(1, nil, 0) },
		"QueuePair.Receive":          func() error { return e.qp.Receive(1, nil) },
		"QueuePair.Bind":             func() error { return e.qp.Bind(1, e.mr, window, e.mr.Bytes()[:1], 0) },
		"QueuePair.Invalidate":       func() error { return e.qp.Invalidate(1, window, 0) },
	} {
		wantStatus(t, name, call(), ErrDeviceRemoved)
		if _, errs, _ := strings.Cut(docs[name], "\nErrors:"); !strings.Contains(errs, "ErrDeviceRemoved") {
			t.Errorf("%s does not say that it fails with ErrDeviceRemoved: %s", name, docs[name])
		}
	}
}

// TestClosedListenerAndConnector: Bind after Close fails with the documented error.
func TestClosedListenerAndConnector(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	e := newEnd(t, r.a, 64)
	l, err := r.a.CreateListener()
	must(t, err)
	must(t, errors.Join(l.Close(), e.ctr.Close()))
	at := netip.AddrPortFrom(r.addr[0], 0)
	wantStatus(t, "listener", l.Bind(at), ErrInvalidDeviceState)
	wantStatus(t, "listen", l.Listen(0), ErrInvalidDeviceState)
	wantStatus(t, "connector", e.ctr.Bind(at), ErrAddressAssociated)
	if docs := docsOf(t); !strings.Contains(docs["Listener.Bind"], "ErrInvalidDeviceState (closed)") || !strings.Contains(docs["Connector.Bind"], "closed") {
		t.Error("the documentation of Bind does not say so")
	}
}

// docsOf returns the comments of this package's methods.
func docsOf(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	paths, err := filepath.Glob("*.go")
	must(t, err)
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		must(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			if p, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
				if of, ok := p.X.(*ast.Ident); ok {
					docs[of.Name+"."+f.Name.Name] = f.Doc.Text()
				}
			}
		}
	}
	return docs
}
