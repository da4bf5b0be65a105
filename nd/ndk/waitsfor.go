package ndk

import (
	"fmt"

	"github.com/ndxdp/ndxdp/internal/verbs"
)

// WaitsFor lists what Close waits for, or would wait for, in words such as "2 queue pairs are open". It lists open objects, closed
// objects that wait for others or for their callbacks ("1 completion queue is closing"), mappings without ReleaseLAM, and callbacks
// that are due or running. It helps to find an object that the program forgot to close. If the list is empty, Close returns. Any
// goroutine may call it at any time, also while Close waits.
func (a *Adapter) WaitsFor() []string {
	list := []string{}
	say := func(n int, what, one, several string) {
		switch {
		case n == 1:
			list = append(list, fmt.Sprintf("1 %s %s", what, one))
		case n > 1:
			list = append(list, fmt.Sprintf("%d %ss %s", n, what, several))
		}
	}
	for k := range verbs.NumObjectKinds {
		closing := int(a.closing[k].Load())
		say(a.verbs.Objects.Used(k)-closing, k.String(), "is open", "are open")
		say(closing, k.String(), "is closing", "are closing")
	}
	say(a.verbs.Mappings.Count(), "logical address mapping", "is not released", "are not released")
	say(int(a.calls.due.Load()), "callback", "is due or runs", "are due or run")
	return list
}
