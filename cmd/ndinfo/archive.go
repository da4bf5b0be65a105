package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// member is a file of an archive.
type member struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// archive is a compressed tar file. close returns the first error.
type archive struct {
	zip      *gzip.Writer
	tar      *tar.Writer
	root     string // directory that contains all files
	at       time.Time
	contents []member
	err      error
}

func newArchive(to io.Writer, root string, at time.Time) *archive {
	zip := gzip.NewWriter(to)
	return &archive{zip: zip, tar: tar.NewWriter(zip), root: root, at: at}
}

func (a *archive) text(name, text string) {
	if a.err != nil {
		return
	}
	name = a.root + "/" + name
	if a.err = a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: a.at}); a.err == nil {
		_, a.err = io.WriteString(a.tar, text)
	}
	a.contents = append(a.contents, member{name, len(text)})
}

func (a *archive) json(name string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	a.err = errors.Join(a.err, err)
	a.text(name, string(text)+"\n")
}

func (a *archive) close() ([]member, error) {
	err := errors.Join(a.err, a.tar.Close(), a.zip.Close())
	return a.contents, err
}
