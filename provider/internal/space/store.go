package space

// Store is the memory that peers can make an engine use: packets behind gaps, and records of sent packets without contents. It is
// bounded over all connections. A connection may take as much as is free, and a source three times as much (the dynamic threshold
// of Choudhury and Hahne). So one source never has more than three quarters, and some memory is free for another source even if
// many take all they can.
type Store struct {
	limit, used int
	accounts    map[[16]byte]*Account // of sources with active connections
	closed      []*Account            // for reuse, at most maxClosed
	spare       [classes][][]byte
	spared      int // bytes in spare
}

// Account counts what the connections of one source take of a Store. A nil Account counts nothing.
type Account struct {
	source      [16]byte
	used, users int
}

// maxClosed is the number of unused accounts to keep, so that connections need no new memory after idle times.
const maxClosed = 64

func (a *Account) add(n int) {
	if a != nil {
		a.used += n
	}
}

// NewStore returns a Store of at most limit bytes.
func NewStore(limit int) Store { return Store{limit: limit, accounts: map[[16]byte]*Account{}} }

// Used returns the bytes in use.
func (s *Store) Used() int { return s.used }

// Limit returns the capacity in bytes.
func (s *Store) Limit() int { return s.limit }

// Open returns the account of a source for one more connection.
func (s *Store) Open(source [16]byte) *Account {
	a := s.accounts[source]
	if a == nil {
		if n := len(s.closed); n > 0 {
			a, s.closed = s.closed[n-1], s.closed[:n-1]
		} else {
			a = new(Account)
		}
		a.source = source
		s.accounts[source] = a
	}
	a.users++
	return a
}

// Close records that a connection of an account has ended or is idle. It must have returned its memory.
func (s *Store) Close(a *Account) {
	if a == nil {
		return
	}
	if a.users--; a.users == 0 {
		delete(s.accounts, a.source)
		if len(s.closed) < maxClosed {
			s.closed = append(s.closed, a)
		}
	}
}

// has reports whether a connection that has mine bytes may take n more.
func (s *Store) has(a *Account, n, mine int) bool {
	free := s.limit - s.used
	return mine+n <= free && (a == nil || a.used+n <= 3*free)
}

// Charge takes n bytes for a connection that has mine bytes already. It returns false if the connection or its source has used up
// its share.
func (s *Store) Charge(a *Account, n, mine int) bool {
	if !s.has(a, n, mine) {
		return false
	}
	s.Refund(a, -n)
	return true
}

// Refund returns n bytes. A negative n takes bytes without a bound, for a connection that moves here from another engine with its
// memory.
func (s *Store) Refund(a *Account, n int) {
	s.used -= n
	a.add(-n)
}
