"""`treadle sessions`: what is stored, shown, moved in and out, mended and deleted.

`command` holds the commands that there are; each other module has one or two of them. All but
`list` and `show` work on the data folder itself, and need neither a daemon nor the agent.
"""
