package genetlink

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// HeaderLen is the length of the header in front of an answer's attributes (struct genlmsghdr).
const HeaderLen = 4

// header is struct genlmsghdr.
type header struct{ command, version uint8 }

func (h header) Len() int          { return HeaderLen }
func (h header) Serialize() []byte { return []byte{h.command, h.version, 0, 0} }

// Conn sends requests in one network namespace, whichever thread calls. The zero Conn uses the namespace of the calling thread.
type Conn struct{ sockets map[int]*nl.SocketHandle }

// Dial returns a Conn for the network namespace of the calling thread.
func Dial() (*Conn, error) {
	s, err := nl.Subscribe(unix.NETLINK_GENERIC) // to no group, because it is for requests
	if err != nil {
		return nil, fmt.Errorf("open a generic netlink socket: %w", err)
	}
	err = errors.Join(s.SetSendTimeout(&nl.SocketTimeoutTv), s.SetReceiveTimeout(&nl.SocketTimeoutTv))
	return &Conn{map[int]*nl.SocketHandle{unix.NETLINK_GENERIC: {Socket: s}}}, err
}

// Close closes the Conn.
func (c *Conn) Close() {
	for _, h := range c.sockets {
		h.Close()
	}
}

// Execute sends a command with attributes to a family, by name, in the network namespace of the calling thread. It returns the
// answers, each with its header. flags are netlink message flags, for example NLM_F_ACK. Errors are the kernel's.
func Execute(family string, command uint8, flags int, attributes ...*nl.RtAttr) ([][]byte, error) {
	return (&Conn{}).Execute(family, command, flags, attributes...)
}

// Execute is the function Execute in the Conn's network namespace.
func (c *Conn) Execute(family string, command uint8, flags int, attributes ...*nl.RtAttr) ([][]byte, error) {
	f, err := c.family(family)
	if err != nil {
		return nil, fmt.Errorf("look up the netlink family %s: %w", family, err)
	}
	return c.execute(f.id, header{command, 1}, flags, attributes)
}

// Subscribe returns a socket that receives the notifications of a family's group, in the network namespace of the calling thread.
func Subscribe(family, group string) (*nl.NetlinkSocket, error) {
	f, err := (&Conn{}).family(family)
	id, known := f.groups[group]
	if err == nil && !known {
		err = unix.ENOENT
	}
	if err != nil {
		return nil, fmt.Errorf("look up the group %s of the netlink family %s: %w", group, family, err)
	}
	s, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open a generic netlink socket: %w", err)
	}
	if err := unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, id); err != nil {
		s.Close()
		return nil, fmt.Errorf("join the group %s of the netlink family %s: %w", group, family, err)
	}
	return s, nil
}

func (c *Conn) execute(id int, h header, flags int, attributes []*nl.RtAttr) ([][]byte, error) {
	request := nl.NewNetlinkRequest(id, flags)
	request.Sockets = c.sockets
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
			return nil, fmt.Errorf("the kernel's answer has only %d bytes", len(answer))
		}
	}
	return answers, nil
}

// family is a family's number and groups, which differ between kernels and boots.
type family struct {
	id     int
	groups map[string]int
}

func (c *Conn) family(name string) (f family, err error) {
	attribute := nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(name))
	answers, err := c.execute(nl.GENL_ID_CTRL, header{nl.GENL_CTRL_CMD_GETFAMILY, nl.GENL_CTRL_VERSION}, 0, []*nl.RtAttr{attribute})
	if err != nil {
		return f, err
	}
	for _, answer := range answers {
		attributes, err := nl.ParseRouteAttr(answer[HeaderLen:])
		if err != nil {
			return f, err
		}
		for _, a := range attributes {
			switch {
			case a.Attr.Type == nl.GENL_CTRL_ATTR_FAMILY_ID && len(a.Value) >= 2:
				f.id = int(binary.NativeEndian.Uint16(a.Value))
			case a.Attr.Type == nl.GENL_CTRL_ATTR_MCAST_GROUPS:
				if f.groups, err = groupsOf(a.Value); err != nil {
					return f, err
				}
			}
		}
	}
	if f.id == 0 {
		return f, unix.ENOENT
	}
	return f, nil
}

// groupsOf parses the list of a family's groups.
func groupsOf(list []byte) (map[string]int, error) {
	groups := map[string]int{}
	entries, err := nl.ParseRouteAttr(list)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		attributes, err := nl.ParseRouteAttr(entry.Value)
		if err != nil {
			return nil, err
		}
		name, id := "", 0
		for _, a := range attributes {
			switch {
			case a.Attr.Type == nl.GENL_CTRL_ATTR_MCAST_GRP_NAME:
				name = unix.ByteSliceToString(a.Value)
			case a.Attr.Type == nl.GENL_CTRL_ATTR_MCAST_GRP_ID && len(a.Value) >= 4:
				id = int(binary.NativeEndian.Uint32(a.Value))
			}
		}
		groups[name] = id
	}
	return groups, nil
}
