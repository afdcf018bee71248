"""URLs as they are asked for: taken apart once, so that what is checked is what is sent.

Refuses to know which hosts are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from treadle.tools.limits import cut_characters
from treadle.tools.web.addresses import host_name
from treadle.tools.web.errors import WebError

# What is left out of an authority (RFC 9110, 4.2); no other scheme is asked for anything.
_DEFAULT_PORTS = {"http": 80, "https": 443}

# What servers take (the shortest of the common bounds); a longer one is a slip of a model.
URL_CHARACTERS = 8_000

# What stays as it is in a path and a query (RFC 3986), `%` included: it is encoded already.
_KEPT = "/?%:@!$&'()*+,;=~-._"

# What is repeated of a wrong URL: enough to recognise it.
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class WebUrl:
    """One resource of the web.

    Args:
        scheme: http or https.
        host: in the form of `host_name`.
        port: from 1 to 65535.
        target: path and query, in ASCII; without the fragment, which is never sent.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port as the header `Host` names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def join(self, location: str) -> WebUrl:
        """Return where a redirect leads to.

        Raises:
            WebError: it is nothing that can be asked for.
        """
        # Joining drops tabs and line ends without a word; here they are refused.
        _require_printable(location)
        try:
            return parse_url(urljoin(str(self), location))
        except ValueError as error:
            raise WebError(f"{_shown(location)} is no URL: {error}.") from error


def parse_url(text: str) -> WebUrl:
    """Take a URL apart.

    Raises:
        WebError: it is nothing that can be asked for; the text says why.
    """
    text = text.strip(" ")
    _require_printable(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise WebError(f"{_shown(text)} is no URL: {error}.") from error
    if parts.scheme not in _DEFAULT_PORTS:
        raise WebError(f"{_shown(text)} is no http:// or https:// URL; only those can be fetched.")
    if "@" in parts.netloc:
        raise WebError("A URL with a user name or password is not fetched; leave them out.")
    if port == 0:
        raise WebError(f"{_shown(text)} names port 0, which nobody listens on.")
    path, query = parts.path or "/", f"?{parts.query}" if parts.query else ""
    return WebUrl(
        parts.scheme,
        _host(parts.hostname or "", text),
        port or _DEFAULT_PORTS[parts.scheme],
        quote(path + query, safe=_KEPT),
    )


def _host(name: str, text: str) -> str:
    if not name:
        raise WebError(f"{_shown(text)} names no host; write it as https://host/path.")
    try:
        return host_name(name)
    except ValueError as error:
        raise WebError(f"The host of {_shown(text)} {error}.") from error


def _require_printable(text: str) -> None:
    """Refuse what some programs drop and others read as the end of a line.

    Raises:
        WebError: there is such a character, or the text is too long.
    """
    if len(text) > URL_CHARACTERS:
        raise WebError(f"The URL is longer than {URL_CHARACTERS} characters.")
    if not text.isprintable():
        raise WebError(f"{_shown(text)} holds a control character; a URL holds none.")


def _shown(text: str) -> str:
    return repr(cut_characters(text, _SHOWN_CHARACTERS))
