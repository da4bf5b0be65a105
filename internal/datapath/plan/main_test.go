package plan

import "github.com/ndxdp/ndxdp/internal/testhelp"

var must = testhelp.Must
