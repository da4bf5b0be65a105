package nd

import "testing"

// created is a region without memory.
func created(t *testing.T) *MemoryRegion {
	t.Helper()
	m, err := commonRig(t).a.CreateMemoryRegion()
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// usable reports whether requests may use the region.
func (m *MemoryRegion) usable() bool {
	return m.adapter.verbs.Memory.Lookup(m.mr.Newest().Token()) != nil
}

func TestM01RegisterMakesTheRegionRegistered(t *testing.T) {
	m := created(t)
	must(t, m.Register(make([]byte, 64), MRAllowLocalWrite))
	if !m.usable() || len(m.Bytes()) != 64 || m.Address() == 0 {
		t.Errorf("%d bytes at %#x", len(m.Bytes()), m.Address())
	}
}

func TestM02RegisteredRegionRefusesRegister(t *testing.T) {
	m := created(t)
	must(t, m.Register(make([]byte, 64), 0))
	token := m.LocalToken()
	wantStatus(t, "register again", m.Register(make([]byte, 32), 0), ErrInvalidDeviceState)
	if m.LocalToken() != token || len(m.Bytes()) != 64 || !m.usable() {
		t.Error("the failed call changed the registration")
	}
}

func TestM03DeregisterMakesTheRegionCreated(t *testing.T) {
	m := created(t)
	must(t, m.Register(make([]byte, 64), 0))
	token := m.LocalToken()
	must(t, m.Deregister())
	if m.usable() {
		t.Error("the token still names memory")
	}
	must(t, m.Register(make([]byte, 64), 0))
	if m.LocalToken() == token || !m.usable() {
		t.Error("the second registration has the token of the first, or none")
	}
}

func TestM04CreatedRegionRefusesDeregister(t *testing.T) {
	m := created(t)
	wantStatus(t, "never registered", m.Deregister(), ErrInvalidDeviceState)
	must(t, m.Register(make([]byte, 64), 0))
	must(t, m.Deregister())
	wantStatus(t, "not any more", m.Deregister(), ErrInvalidDeviceState)
}
