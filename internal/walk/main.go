// Command walk counts the functions, files and packages that run for one 64-byte Write. The Write goes over loopback, so both ends of the
// connection count, from the call that posts the Write to its result, sleeping included. The command builds itself with coverage of all
// packages, and counts what the Write covered. Timers and goroutines in the background may run as well, so the smallest of several walks
// counts. -list prints the functions.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// rounds is how many walks are measured.
const rounds = 10

func main() {
	child := flag.String("write", "", "run the Writes, and write the coverage of each to a directory of its own below `DIR`")
	list := flag.Bool("list", false, "print the functions")
	flag.Parse()
	var err error
	if *child != "" {
		err = write(*child)
	} else {
		err = measure(*list)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// measure builds and runs this program with coverage, and prints the smallest walk.
func measure(list bool) error {
	dir, err := os.MkdirTemp("", "walk")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "walk")
	for _, args := range [][]string{
		{"go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/ndxdp/ndxdp/...", "-o", program, "github.com/ndxdp/ndxdp/internal/walk"},
		{program, "-write", dir},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	var best []string
	for i := range rounds {
		covered, err := functions(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		if best == nil || len(covered) < len(best) {
			best = covered
		}
	}
	files, packages := map[string]bool{}, map[string]bool{}
	for _, f := range best {
		file, _, _ := strings.Cut(f, ":")
		files[file], packages[path.Dir(file)] = true, true
		if list {
			fmt.Println(f)
		}
	}
	fmt.Printf("%d functions in %d files of %d packages\n", len(best), len(files), len(packages))
	return nil
}

// functions lists the covered functions of a walk as FILE:LINE NAME. It leaves out this program.
func functions(dir string) (covered []string, err error) {
	out, err := exec.Command("go", "tool", "covdata", "func", "-i", dir).Output()
	if err != nil {
		return nil, fmt.Errorf("read the coverage in %s: %w", dir, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[2] == "0.0%" || !strings.Contains(fields[0], ":") || strings.Contains(fields[0], "/internal/walk/") {
			continue
		}
		covered = append(covered, strings.TrimSuffix(strings.TrimPrefix(fields[0], "github.com/ndxdp/ndxdp/"), ":")+" "+fields[1])
	}
	slices.Sort(covered)
	return covered, nil
}

// write connects two endpoints, and leaves the coverage of each Write in a directory below dir.
func write(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	listener, err := nd.Listen(netip.MustParseAddrPort("127.0.0.1:7077"), nd.EndpointConfig{Rights: nd.MRAllowRemoteWrite})
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	served := make(chan error, 1)
	go func() {
		e, err := listener.Accept(ctx)
		if err == nil {
			defer func() { _ = e.Close() }()
			err = e.Connector.NotifyDisconnect(ctx)
		}
		served <- err
	}()
	e, err := nd.Dial(ctx, netip.MustParseAddrPort("127.0.0.1:7077"), nd.EndpointConfig{})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	message := make([]byte, 64)
	for i := range rounds {
		if err := e.Write(ctx, 0, message); err != nil { // nothing is idle afterwards
			return err
		}
		round := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(round, 0o700); err != nil {
			return err
		}
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		err := e.Write(ctx, 0, message)
		if err := errors.Join(err, coverage.WriteCountersDir(round), coverage.WriteMetaDir(round)); err != nil {
			return err
		}
	}
	return errors.Join(e.Disconnect(ctx), <-served)
}
