package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const sftpSize = 32 * mib

func sftpCases() []program {
	return []program{
		{name: "sftp-upload-32MiB", serve: serveSSH, connect: func(_ context.Context, n *network) (*load, error) { return connectSFTP(n, sftpUpload) }},
		{name: "sftp-download-32MiB", serve: serveSSH, connect: func(_ context.Context, n *network) (*load, error) { return connectSFTP(n, sftpDownload) }},
	}
}

// files has one file for reading, and verifies written files.
type files struct{ content []byte }

func (f files) Fileread(*sftp.Request) (io.ReaderAt, error) { return f, nil }

func (f files) Filewrite(*sftp.Request) (io.WriterAt, error) { return &written{}, nil }

func (files) Filecmd(*sftp.Request) error { return nil }

func (f files) Filelist(*sftp.Request) (sftp.ListerAt, error) { return f, nil }

// ListAt describes the file, before a client reads it.
func (f files) ListAt(to []os.FileInfo, at int64) (int, error) {
	if at > 0 || len(to) == 0 {
		return 0, io.EOF
	}
	to[0] = f
	return 1, nil
}

func (f files) Name() string       { return "download" }
func (f files) Size() int64        { return int64(len(f.content)) }
func (f files) Mode() os.FileMode  { return 0o600 }
func (f files) ModTime() time.Time { return time.Time{} }
func (f files) IsDir() bool        { return false }
func (f files) Sys() any           { return nil }

func (f files) ReadAt(p []byte, at int64) (int, error) {
	if at >= int64(len(f.content)) {
		return 0, io.EOF
	}
	n := copy(p, f.content[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// written verifies a file whose parts arrive in any order.
type written struct{ got atomic.Int64 }

func (w *written) WriteAt(p []byte, at int64) (int, error) {
	v := verifier{size: sftpSize}
	if err := v.check(p, int(at)); err != nil {
		return 0, err
	}
	w.got.Add(int64(len(p)))
	return len(p), nil
}

// Close returns an error if bytes are missing.
func (w *written) Close() error {
	if n := w.got.Load(); n != sftpSize {
		return fmt.Errorf("%w: %d bytes of %d were written", errWrong, n, sftpSize)
	}
	return nil
}

func serveSFTP(channel ssh.Channel) error {
	f := files{content(sftpSize, 0)}
	server := sftp.NewRequestServer(channel, sftp.Handlers{FileGet: f, FilePut: f, FileCmd: f, FileList: f})
	return errors.Join(server.Serve(), server.Close())
}

func connectSFTP(n *network, call func(*sftp.Client) func() error) (*load, error) {
	conn, err := dialSSH(n)
	if err != nil {
		return nil, err
	}
	client, err := sftp.NewClient(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &load{
		calls: []func() error{call(client)},
		close: func() error {
			_, _ = client.Close(), conn.Close() // all answers have arrived
			return nil
		},
	}, nil
}

func sftpUpload(c *sftp.Client) func() error {
	body := content(sftpSize, 0)
	return func() error {
		file, err := c.OpenFile("/upload", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return err
		}
		_, err = file.ReadFrom(bytes.NewReader(body))
		return errors.Join(err, file.Close())
	}
}

func sftpDownload(c *sftp.Client) func() error {
	return func() error {
		file, err := c.Open("/download")
		if err != nil {
			return err
		}
		v := &verifier{size: sftpSize}
		_, err = file.WriteTo(v)
		if err == nil {
			err = v.whole()
		}
		return errors.Join(err, file.Close())
	}
}
