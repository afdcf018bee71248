#!/bin/sh
# A client of the daemon that is nothing but a shell: frames by printf, replies read byte by byte.
say() { printf 'Content-Length: %d\r\n\r\n%s' "$(printf %s "$1" | wc -c)" "$1"; }
hear() { read -r _ length && read -r _ && dd bs=1 count="${length%?}" 2>/dev/null; }

pipes=$(mktemp -d) && mkfifo "$pipes/to" "$pipes/from"
treadle serve <"$pipes/to" >"$pipes/from" &
exec 3>"$pipes/to" 4<"$pipes/from" && rm -r "$pipes"

say '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}' >&3
say '{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"agent":"assistant","instance":"shell","prompt":"My name is Mac."}}' >&3
while frame=$(hear <&4); do
    printf '%s\n' "$frame"
    case $frame in '{"id":2,'*) break ;; esac
done
exec 3>&- # the end of its input ends the daemon
wait
