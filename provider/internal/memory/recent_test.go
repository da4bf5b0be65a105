package memory

import "testing"

// A remembered lookup serves only the same token, rights and side, within its bounds. Everything else is looked up anew.
func TestRecentIsOfOneTokenAndItsRights(t *testing.T) {
	d := newDesk(t, RightRemoteRead)
	other := d.register(d.domain, all)
	mine, base := d.region.Token(), d.region.Base()
	var r Recent
	for range 2 { // a lookup, and a remembered one
		if b, g := r.Local(d.Table, &d.one, mine, base+8, 16, 0); len(b) != 16 || g != &d.region.Grant || &b[0] != &d.region.Bytes()[8] {
			t.Fatal("a request cannot read its memory")
		}
	}
	if b, _ := r.Local(d.Table, &d.one, mine, base, 4097, 0); b != nil {
		t.Error("bytes beyond the end of the found region are allowed")
	}
	if b, _ := r.Local(d.Table, &d.one, mine, base, 8, RightLocalWrite); b != nil {
		t.Error("another right is allowed")
	}
	if b, g := r.Local(d.Table, &d.one, other.Token(), other.Base(), 8, RightLocalWrite); len(b) != 8 || g != &other.Grant {
		t.Error("another token finds the remembered region")
	}
	r = Recent{}
	for range 2 {
		if b, g := r.Remote(d.Table, &d.one, mine, base+8, 16, RightRemoteRead); len(b) != 16 || g != &d.region.Grant {
			t.Fatal("a peer cannot read what it may")
		}
	}
	if b, _ := r.Remote(d.Table, &d.one, mine, base, 4097, RightRemoteRead); b != nil {
		t.Error("bytes beyond the end of the found region are allowed")
	}
	if b, _ := r.Remote(d.Table, &d.one, mine, base, 8, RightRemoteWrite); b != nil {
		t.Error("another right of the peer is allowed")
	}
	if b, g := r.Remote(d.Table, &d.one, other.Token(), other.Base(), 8, RightRemoteRead); len(b) != 8 || g != &other.Grant {
		t.Error("another token finds the remembered region")
	}
}
