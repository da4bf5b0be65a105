package sim

import "github.com/ndxdp/ndxdp/provider"

// pathTable has the paths that a queue gave to its engine, by number; zero is not a path.
type pathTable struct {
	ends []pathEnds
	free []provider.Path
	open int
}

func newPathTable() pathTable { return pathTable{ends: make([]pathEnds, 1)} }

func (s *pathTable) add(ends pathEnds) provider.Path {
	s.open++
	if n := len(s.free); n > 0 {
		p := s.free[n-1]
		s.free = s.free[:n-1]
		s.ends[p] = ends
		return p
	}
	s.ends = append(s.ends, ends)
	return provider.Path(len(s.ends) - 1)
}

func (s *pathTable) remove(p provider.Path) {
	s.open--
	s.ends[p] = pathEnds{}
	s.free = append(s.free, p)
}
