package genetlink

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// HeaderLen is how many bytes of an answer are in front of its attributes (struct genlmsghdr).
const HeaderLen = 4

// header is struct genlmsghdr.
type header struct{ command, version uint8 }

func (h header) Len() int          { return HeaderLen }
func (h header) Serialize() []byte { return []byte{h.command, h.version, 0, 0} }

// Execute sends a command with attributes to the family of that name, in the network namespace of the calling thread, and returns the
// answers, each with its header. flags are those of the netlink message, such as NLM_F_ACK. Errors are the kernel's.
func Execute(family string, command uint8, flags int, attributes ...*nl.RtAttr) ([][]byte, error) {
	id, err := familyID(family)
	if err != nil {
		return nil, fmt.Errorf("look up the netlink family %s: %w", family, err)
	}
	return execute(id, header{command, 1}, flags, attributes)
}

func execute(id int, h header, flags int, attributes []*nl.RtAttr) ([][]byte, error) {
	request := nl.NewNetlinkRequest(id, flags)
	request.AddData(h)
	for _, a := range attributes {
		request.AddData(a)
	}
	answers, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		if len(answer) < HeaderLen {
			return nil, fmt.Errorf("an answer of %d bytes", len(answer))
		}
	}
	return answers, nil
}

// familyID asks for the number of a family, which differs between kernels and boots.
func familyID(family string) (int, error) {
	name := nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(family))
	answers, err := execute(nl.GENL_ID_CTRL, header{nl.GENL_CTRL_CMD_GETFAMILY, nl.GENL_CTRL_VERSION}, 0, []*nl.RtAttr{name})
	if err != nil {
		return 0, err
	}
	for _, answer := range answers {
		attributes, err := nl.ParseRouteAttr(answer[HeaderLen:])
		if err != nil {
			return 0, err
		}
		for _, a := range attributes {
			if a.Attr.Type == nl.GENL_CTRL_ATTR_FAMILY_ID && len(a.Value) >= 2 {
				return int(binary.NativeEndian.Uint16(a.Value)), nil
			}
		}
	}
	return 0, unix.ENOENT
}
