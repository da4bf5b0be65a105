package ndnet_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/nd/ndnet"
)

// The example of README.md: a web server and its client.
func Example_http() {
	listener, err := ndnet.Listen("nd", "192.0.2.7:80")
	if err != nil {
		fmt.Println(err)
		return
	}
	go http.Serve(listener, nil)
	client := http.Client{Transport: &http.Transport{DialContext: new(ndnet.Dialer).DialContext}}
	answer, err := client.Get("http://192.0.2.7/")
	fmt.Println(answer, err)
}

// README.md shows the lines of the example about streams.
func TestReadmeShowsTheLines(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```go\nlistener, err := ndnet")
	shown, _, _ = strings.Cut("listener, err := ndnet"+shown, "```\n")
	lines := 0
	for line := range strings.Lines(shown) {
		lines++
		if !strings.Contains(string(source), "\t"+line) {
			t.Errorf("README.md shows %q, which is not in the example", line)
		}
	}
	if lines != 3 {
		t.Errorf("README.md shows %d lines", lines)
	}
}
