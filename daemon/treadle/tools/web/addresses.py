"""Names of hosts in the one form in which they are compared, and which addresses are public.

Owns both rules, which everything that reaches out stands on. Refuses to know who asks and how
names become addresses; opens no socket.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# The longest name that DNS carries (RFC 1035, 2.3.4).
_NAME_CHARACTERS = 253

# Letters, digits and hyphens (RFC 1123), and the underscore that some names in use have.
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")

# A name that ends so is an address to browsers and C libraries: 127.1, 2130706433, 0x7f.1.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

# IANA's special-purpose registry for IPv4, without what is reachable from everywhere.
_NOT_PUBLIC_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # behind a carrier's NAT; one cloud's metadata
            "127.0.0.0/8",  # this machine
            "168.63.129.16/32",  # public by its number, and the host of every machine in one cloud
            "169.254.0.0/16",  # link-local; most clouds' metadata
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays, withdrawn
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)

# What is handed out to networks of the internet; nothing outside of it is (RFC 4291, 2.4).
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
# What within that is not reachable from everywhere, or hides an address of the other kind.
_NOT_PUBLIC_V6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments; Teredo, which holds an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which holds an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)

# Networks without IPv4 reach it through these (RFC 6052): the last four bytes say whom.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def host_name(text: str) -> str:
    """Return a host as it is compared, resolved and sent.

    That is: lower case, other alphabets in IDNA's ASCII form, no dot at the end; an IPv4 address
    as four decimal numbers, an IPv6 address compressed and without brackets.

    Raises:
        ValueError: it is no host; the text ends a sentence that begins with what was given.
    """
    if ":" in text:
        return _ipv6(text)
    host = (text if text.isascii() else _ascii(text)).lower().removesuffix(".")
    if len(host) > _NAME_CHARACTERS or not all(map(_LABEL.fullmatch, host.split("."))):
        raise ValueError("is no name of a host")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return _ipv4(host)
    return host


def address_of(host: str) -> Address | None:
    """Return the address that a host is; None where it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(address: str) -> bool:
    """Whether an address lies on the internet, and nowhere else; False for what is no address."""
    found = address_of(address)
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _NOT_PUBLIC_V4)
    if found is None or found.scope_id is not None:
        return False
    if found in _NAT64:
        return is_public(str(ipaddress.IPv4Address(found.packed[-4:])))
    return found in _GLOBAL_V6 and not any(found in network for network in _NOT_PUBLIC_V6)


def _ipv4(host: str) -> str:
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        raise ValueError("is an address that is not written as four decimal numbers") from None


def _ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise ValueError("is no name of a host") from None
    if address.scope_id is not None:
        raise ValueError("is an address of one network only")
    return str(address)


def _ascii(text: str) -> str:
    """Return a name in IDNA's ASCII form (UTS 46, which browsers follow).

    Raises:
        ValueError: it has none.
    """
    import idna

    # The library's time grows with the square of what is no name anyway.
    if len(text) > _NAME_CHARACTERS:
        raise ValueError("is no name of a host")
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except UnicodeError as error:
        raise ValueError("is no name of a host") from error
