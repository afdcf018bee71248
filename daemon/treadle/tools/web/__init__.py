"""The tools of the web, `fetch` and `web_search`, and what they stand on.

That is hosts and addresses, one pinned request, search backends, and the text of pages.
"""
