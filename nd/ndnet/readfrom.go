package ndnet

import (
	"io"
	"os"
	"sync"
)

// copies are the buffers of ReadFrom.
var copies = sync.Pool{New: func() any { return new([maxPiece]byte) }}

// ReadFrom writes what r reads until its end. A concurrent Write does not wait for a read of r; its bytes go between two reads'
// bytes.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	if r == nil {
		return 0, c.opError("write", errNil)
	}
	if isFile(r) {
		return c.readFile(r)
	}
	buf := copies.Get().(*[maxPiece]byte)
	defer copies.Put(buf)
	for {
		if err := c.stillWritable(); err != nil { // otherwise data read from r would be lost
			return n, c.opError("write", err)
		}
		got, err := r.Read(buf[:])
		if got > 0 {
			wrote, err := c.Write(buf[:got])
			if n += int64(wrote); err != nil {
				return n, err
			}
		}
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

func (c *Conn) stillWritable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writable()
}

// isFile reports whether r is a regular file, or a limited part of one, so that reading it does not wait for a writer.
func isFile(r io.Reader) bool {
	if l, ok := r.(*io.LimitedReader); ok {
		r = l.R
	}
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// readFile is ReadFrom for a file. It reads into the send ring without an intermediate copy; other writers wait meanwhile.
func (c *Conn) readFile(r io.Reader) (n int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writing.take(c.writable); err != nil {
		return 0, c.opError("write", err)
	}
	defer c.writing.give()
	defer c.leave()
	for {
		if err := c.writable(); err != nil {
			return n, c.opError("write", err)
		}
		space, err := c.space(maxPiece)
		if err != nil {
			return n, c.opError("write", err)
		}
		if len(space) == 0 {
			if c.writable() == nil {
				c.await(true)
			}
			continue
		}
		c.stay(maxPiece)
		c.leave()
		got, err := c.fill(space[:min(len(space), maxPiece)], r)
		if got > 0 {
			if err := c.writable(); err != nil { // the bytes are lost
				return n, c.opError("write", err)
			}
			n += int64(got)
			c.send.ring.tail += uint64(got)
			c.flush()
		}
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// fill reads from r into p without the lock. The caller holds mu.
func (c *Conn) fill(p []byte, r io.Reader) (int, error) {
	c.mu.Unlock()
	defer c.mu.Lock()
	return r.Read(p)
}
