/* address.c: socket addresses. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"

enum { DISCARD_PORT = 9 }; /* any port: a UDP socket that is connected sends nothing */

static const struct sockaddr_in *v4(const struct sockaddr *address)
{
	return (const struct sockaddr_in *) address;
}

static const struct sockaddr_in6 *v6(const struct sockaddr *address)
{
	return (const struct sockaddr_in6 *) address;
}

socklen_t address_size(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

bool address_valid(const struct sockaddr *address, size_t len)
{
	return address && len >= sizeof(struct sockaddr_in) && (address->sa_family == AF_INET || address->sa_family == AF_INET6) &&
	       len >= address_size(address);
}

bool address_any(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6(address)->sin6_addr) : v4(address)->sin_addr.s_addr == INADDR_ANY;
}

bool address_loopback(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6(address)->sin6_addr) :
						ntohl(v4(address)->sin_addr.s_addr) >> 24 == 127;
}

bool address_equal(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	return a->sa_family == AF_INET6 ? IN6_ARE_ADDR_EQUAL(&v6(a)->sin6_addr, &v6(b)->sin6_addr) :
					  v4(a)->sin_addr.s_addr == v4(b)->sin_addr.s_addr;
}

uint16_t address_port(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? v6(address)->sin6_port : v4(address)->sin_port;
}

void address_set_port(struct sockaddr *address, uint16_t port)
{
	if (address->sa_family == AF_INET6)
		((struct sockaddr_in6 *) address)->sin6_port = port;
	else
		((struct sockaddr_in *) address)->sin_port = port;
}

void address_text(const struct sockaddr *address, char *text, size_t len)
{
	const void *bytes = address->sa_family == AF_INET6 ? (const void *) &v6(address)->sin6_addr : &v4(address)->sin_addr;

	if (!inet_ntop(address->sa_family, bytes, text, (socklen_t) len))
		snprintf(text, len, "?");
}

int address_copy(const struct sockaddr *from, void *to, size_t *len)
{
	size_t size = address_size(from), room = *len;

	if (to)
		memcpy(to, from, room < size ? room : size);
	*len = size;
	return room < size ? -FI_ETOOSMALL : 0;
}

bool address_set(void **address, size_t *len, const struct sockaddr *from)
{
	free(*address);
	*len = address_size(from);
	*address = malloc(*len);
	if (*address)
		memcpy(*address, from, *len);
	return *address != NULL;
}

int address_toward(const struct sockaddr *to, struct sockaddr_storage *from)
{
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(*from);
	int fd, ret;

	memcpy(&peer, to, address_size(to));
	address_set_port((struct sockaddr *) &peer, htons(DISCARD_PORT));
	fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -FI_ENODATA;
	ret = connect(fd, (struct sockaddr *) &peer, address_size(to)) || getsockname(fd, (struct sockaddr *) from, &len) ? -FI_ENODATA : 0;
	close(fd);
	if (!ret)
		address_set_port((struct sockaddr *) from, 0);
	return ret;
}
