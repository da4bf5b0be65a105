package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
)

// Paths of the web server.
const (
	pathEcho   = "/echo/"   // a small answer that begins with the path of its request
	pathBytes  = "/bytes/"  // an answer of 64 KiB from memory
	pathFile   = "/file/"   // a file
	pathUpload = "/upload/" // reads the request's body, and returns its length
)

// fileName is the file's name below pathFile.
const fileName = "content"

const (
	mediumAnswer = 64 * kib
	largeAnswer  = 64 * mib
	largeUpload  = 16 * mib
)

// webCase describes a case of net/http.
type webCase struct {
	name    string
	callers int
	tls     bool
	h2      bool // one connection for all callers
	churn   bool // a new connection for each request
	file    int  // size of the served file; 0 for none
	call    func(c *webClient, caller int) func() error
}

func (w webCase) program() program {
	return program{
		name:    w.name,
		serve:   func(n *network) (*service, error) { return serveWeb(n, w) },
		connect: func(_ context.Context, n *network) (*load, error) { return connectWeb(n, w) },
	}
}

func programs(of []webCase) []program {
	out := make([]program, len(of))
	for i, w := range of {
		out[i] = w.program()
	}
	return out
}

func httpCases() []program {
	return programs([]webCase{
		{name: "http-64B-1", callers: 1, call: (*webClient).echo},
		{name: "http-64B-16", callers: 16, call: (*webClient).echo},
		{name: "http-64B-128", callers: 128, call: (*webClient).echo},
		{name: "http-64KiB-1", callers: 1, call: (*webClient).medium},
		{name: "http-64KiB-16", callers: 16, call: (*webClient).medium},
		{name: "http-64KiB-128", callers: 128, call: (*webClient).medium},
		{name: "http-file-64KiB-16", callers: 16, file: mediumAnswer, call: (*webClient).mediumFile},
		{name: "http-range-64KiB-16", callers: 16, file: largeAnswer, call: (*webClient).part},
		{name: "http-file-64MiB-1", callers: 1, file: largeAnswer, call: (*webClient).largeFile},
		{name: "http-file-64MiB-4", callers: 4, file: largeAnswer, call: (*webClient).largeFile},
		{name: "http-upload-16MiB-1", callers: 1, call: (*webClient).upload},
		{name: "http-upload-16MiB-4", callers: 4, call: (*webClient).upload},
		{name: "https-64B-16", callers: 16, tls: true, call: (*webClient).echo},
		{name: "https-64KiB-16", callers: 16, tls: true, call: (*webClient).medium},
		{name: "https-file-64MiB-1", callers: 1, tls: true, file: largeAnswer, call: (*webClient).largeFile},
	})
}

func http2Cases() []program {
	return programs([]webCase{
		{name: "http2-64B-1", callers: 1, h2: true, call: (*webClient).echo},
		{name: "http2-64B-100", callers: 100, h2: true, call: (*webClient).echo},
		{name: "http2-64KiB-16", callers: 16, h2: true, call: (*webClient).medium},
		{name: "http2-file-64MiB-1", callers: 1, h2: true, file: largeAnswer, call: (*webClient).largeFile},
	})
}

// churnCases open a connection for each request, use it once, and close it.
func churnCases() []program {
	return programs([]webCase{
		{name: "churn-http-1", callers: 1, churn: true, call: (*webClient).echo},
		{name: "churn-http-16", callers: 16, churn: true, call: (*webClient).echo},
		{name: "churn-https-16", callers: 16, churn: true, tls: true, call: (*webClient).echo},
	})
}

// serveWeb serves on the address of this process.
func serveWeb(n *network, w webCase) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	file, err := nameless(content(w.file, 0))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pathEcho, answerEcho)
	medium := content(mediumAnswer, 0)
	mux.HandleFunc(pathBytes, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", strconv.Itoa(len(medium)))
		_, _ = rw.Write(medium) // a client that has gone sends no further requests
	})
	mux.Handle(pathFile, http.StripPrefix(pathFile, http.FileServer(served{file})))
	mux.HandleFunc(pathUpload, answerUpload)
	s := serveHTTP(l, mux, w)
	return &service{stop: func() error { return errors.Join(s.stop(), file.Close()) }}, nil
}

// nameless returns an open file without a name, which disappears with the process, even if it is killed.
func nameless(content []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "ndxdp-real-")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(content)
	if err = errors.Join(os.Remove(f.Name()), err); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// served is a file system with one open file, under every name.
type served struct{ file *os.File }

// Open implements http.FileSystem. Each reader has its own offset.
func (s served) Open(string) (http.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", s.file.Fd()))
}

// serveHTTP serves a listener until it is stopped.
func serveHTTP(l net.Listener, handler http.Handler, w webCase) *service {
	server := &http.Server{Handler: handler}
	if w.h2 {
		server.Protocols = onlyHTTP2()
	}
	served := make(chan error, 1)
	if w.tls {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate()}}
		go func() { served <- server.ServeTLS(l, "", "") }()
	} else {
		go func() { served <- server.Serve(l) }()
	}
	return &service{stop: func() error {
		err := server.Close()
		if why := <-served; !errors.Is(why, http.ErrServerClosed) {
			err = errors.Join(err, why)
		}
		return err
	}}
}

func onlyHTTP2() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}

func answerEcho(rw http.ResponseWriter, r *http.Request) {
	body := make([]byte, small)
	copy(body, r.URL.Path)
	_, _ = rw.Write(body) // a client that has gone sends no further requests
}

func answerUpload(rw http.ResponseWriter, r *http.Request) {
	v := &verifier{size: largeUpload}
	_, err := io.Copy(v, r.Body)
	if err == nil {
		err = v.whole()
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(rw, v.at)
}

// webClient makes requests over one transport of net/http.
type webClient struct {
	client *http.Client
	base   string // URL without a path
	body   []byte // of an upload
}

func connectWeb(n *network, w webCase) (*load, error) {
	transport := &http.Transport{
		DialContext: n.dial, MaxConnsPerHost: w.callers, MaxIdleConnsPerHost: w.callers,
		DisableCompression: true, DisableKeepAlives: w.churn,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the server generates its certificate at its start
	}
	if w.churn {
		transport.MaxConnsPerHost = 0 // a new connection does not wait until the previous one is closed
	}
	if w.h2 {
		transport.Protocols, transport.MaxConnsPerHost = onlyHTTP2(), 1
	}
	scheme := "http"
	if w.tls {
		scheme = "https"
	}
	c := &webClient{client: &http.Client{Transport: transport}, base: scheme + "://" + n.there(), body: content(largeUpload, 0)}
	return &load{
		calls: each(w.callers, func(caller int) func() error { return w.call(c, caller) }),
		close: func() error { transport.CloseIdleConnections(); return nil },
	}, nil
}

// get makes a request and passes the body of the answer to a function.
func (c *webClient) get(path, span string, status int, read func(io.Reader) error) error {
	request, err := http.NewRequest(http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return err
	}
	if span != "" {
		request.Header.Set("Range", span)
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != status {
		return fmt.Errorf("%s was answered %s", path, answer.Status)
	}
	return read(answer.Body)
}

func (c *webClient) echo(caller int) func() error {
	k := 0
	return func() error {
		k++
		path := fmt.Sprintf("%s%d/%d", pathEcho, caller, k)
		return c.get(path, "", http.StatusOK, func(body io.Reader) error {
			got, err := io.ReadAll(body)
			if err != nil {
				return err
			}
			want := make([]byte, small)
			copy(want, path)
			if !bytes.Equal(got, want) {
				return fmt.Errorf("%w: %s was answered %q", errWrong, path, got)
			}
			return nil
		})
	}
}

// download returns a call that downloads content and checks it, from an offset.
func (c *webClient) download(path, span string, status, from, size int) func() error {
	return func() error {
		return c.get(path, span, status, func(body io.Reader) error {
			v := &verifier{size: from + size, at: from}
			if _, err := io.Copy(v, body); err != nil {
				return err
			}
			return v.whole()
		})
	}
}

func (c *webClient) medium(int) func() error {
	return c.download(pathBytes, "", http.StatusOK, 0, mediumAnswer)
}

func (c *webClient) mediumFile(int) func() error {
	return c.download(pathFile+fileName, "", http.StatusOK, 0, mediumAnswer)
}

func (c *webClient) largeFile(int) func() error {
	return c.download(pathFile+fileName, "", http.StatusOK, 0, largeAnswer)
}

// part downloads 64 KiB of the large file, a different part for each caller.
func (c *webClient) part(caller int) func() error {
	from := caller * mib
	span := fmt.Sprintf("bytes=%d-%d", from, from+mediumAnswer-1)
	return c.download(pathFile+fileName, span, http.StatusPartialContent, from, mediumAnswer)
}

func (c *webClient) upload(int) func() error {
	return func() error {
		answer, err := c.client.Post(c.base+pathUpload, "application/octet-stream", bytes.NewReader(c.body))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		if want := strconv.Itoa(len(c.body)); string(got) != want {
			return fmt.Errorf("%w: an upload of %s bytes was answered %q", errWrong, want, got)
		}
		return nil
	}
}
