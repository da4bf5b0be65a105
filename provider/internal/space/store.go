package space

// Store is the memory that peers make an engine use: packets behind gaps, and records of sent packets without contents. It is bounded over
// all connections. A connection may have as much as is free, and a source three times as much (the dynamic threshold of Choudhury and
// Hahne). So one source never has more than three quarters, and even if many sources take all they can, some memory is left for another
// source.
type Store struct {
	limit, used int
	accounts    map[[16]byte]*Account // of sources with connections that move data
	closed      []*Account            // to be used again, at most maxClosed
	spare       [classes][][]byte
	spared      int // bytes in spare
}

// Account is what the connections of one source have of a store. Nil counts nothing.
type Account struct {
	source      [16]byte
	used, users int
}

// maxClosed is how many accounts without connections are kept: connections that are idle now and then need no new memory.
const maxClosed = 64

func (a *Account) add(n int) {
	if a != nil {
		a.used += n
	}
}

// NewStore makes a store of at most limit bytes.
func NewStore(limit int) Store { return Store{limit: limit, accounts: map[[16]byte]*Account{}} }

// Used returns the bytes that are taken; zero when no packet waits and no record is charged.
func (s *Store) Used() int { return s.used }

// Limit returns the bytes that may be taken.
func (s *Store) Limit() int { return s.limit }

// Accounts returns how many sources have an account.
func (s *Store) Accounts() int { return len(s.accounts) }

// Open returns the account of a source, for one connection more.
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

// Close takes in that a connection of an account is gone, or idle. It must have given back what it had.
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

// has says whether a connection that has mine bytes may have n more.
func (s *Store) has(a *Account, n, mine int) bool {
	free := s.limit - s.used
	return mine+n <= free && (a == nil || a.used+n <= 3*free)
}

// Charge takes n bytes for a connection that has mine bytes besides. It reports false when the connection or its source has its share.
func (s *Store) Charge(a *Account, n, mine int) bool {
	if !s.has(a, n, mine) {
		return false
	}
	s.Refund(a, -n)
	return true
}

// Refund gives n bytes back. A negative n takes bytes without a bound: for a connection that comes from another engine with its memory.
func (s *Store) Refund(a *Account, n int) {
	s.used -= n
	a.add(-n)
}
