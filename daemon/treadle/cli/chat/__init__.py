"""`treadle chat`: a conversation in a terminal, over the same protocol that editors speak.

`conversation` decides what happens, `items` says what can be shown, and two faces show it:
`terminal` where a cursor can move, `plain` everywhere else. Only `command` is loaded by others.
"""
