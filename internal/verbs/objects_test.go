package verbs

import "testing"

func TestObjectsHaveALimit(t *testing.T) {
	var o Objects
	if !o.Take(ObjectCQ) {
		t.Fatal("the first one was refused")
	}
	for o.Take(ObjectCQ) {
	}
	for range 2 { // a refusal leaves nothing behind
		if o.Take(ObjectCQ) {
			t.Error("one too many")
		}
	}
	if !o.Take(ObjectQP) {
		t.Error("one kind took from another")
	}
	o.Give(ObjectCQ)
	if !o.Take(ObjectCQ) {
		t.Error("a returned object is not available")
	}
	if o.Take(ObjectCQ) {
		t.Error("it is there twice")
	}
}
