package ndcapture

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// side is the end of a connection that sends: the TLS client, which is the active end, or the TLS server.
type side uint8

const (
	client side = iota
	server
)

// clientRandom is the random field of a ClientHello. It names a TLS handshake in a key log.
type clientRandom [32]byte

// secrets are the traffic secrets of a TLS handshake, by sender and key generation. A secret that the log does not have is nil.
type secrets [2][2][]byte

// keyLog has the secrets of TLS handshakes.
type keyLog map[clientRandom]*secrets

// keyLabels are the labels of the secrets that keys of generations 0 and 1 follow from (PROTOCOL §10.2). A key log has further labels.
var keyLabels = map[string]struct {
	sender     side
	generation int
}{
	"CLIENT_HANDSHAKE_TRAFFIC_SECRET": {client, 0},
	"SERVER_HANDSHAKE_TRAFFIC_SECRET": {server, 0},
	"CLIENT_TRAFFIC_SECRET_0":         {client, 1},
	"SERVER_TRAFFIC_SECRET_0":         {server, 1},
}

// errNoSecrets means that a file is no key log, or the log of older versions of TLS.
var errNoSecrets = errors.New("ndcapture: the key log has no secrets of TLS 1.3: give the file that tls.Config.KeyLogWriter wrote")

// readKeyLog reads a log in the NSS format: a label, the client random and the secret in each line. Other lines are ignored, because
// several processes may write one file, and a process may be killed in the middle of a line.
func readKeyLog(r io.Reader) (keyLog, error) {
	log, lines := keyLog{}, bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			continue
		}
		what, known := keyLabels[words[0]]
		random, err := hex.DecodeString(words[1])
		secret, err2 := hex.DecodeString(words[2])
		if !known || err != nil || err2 != nil || len(random) != len(clientRandom{}) {
			continue
		}
		id := clientRandom(random)
		if log[id] == nil {
			log[id] = new(secrets)
		}
		log[id][what.sender][what.generation] = secret
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("ndcapture: read the key log: %w", err)
	}
	if len(log) == 0 {
		return nil, errNoSecrets
	}
	return log, nil
}
