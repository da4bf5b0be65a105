package provider

import "github.com/ndxdp/ndxdp/wire"

// bulkPort is the port of each pipe's bulk path.
const bulkPort = 40000

// BulkOpen implements Laned.
func (p *pipe) BulkOpen() bool { return !p.noBulk }

// BulkPath implements Laned.
func (p *pipe) BulkPath(to wire.Endpoint) (Path, bool) {
	from := wire.Endpoint{IP: pairIP[0], Port: bulkPort}
	if to.IP == from.IP {
		from.IP = pairIP[1]
	}
	if p.noBulk {
		return 0, false
	}
	path, err := p.Connect(from, to)
	return path, err == nil
}

// ForgetBulk implements Laned.
func (p *pipe) ForgetBulk(path Path) { p.Forget(path) }
