"""The explorer: a page in the browser, on this machine alone, that shows how attention computes a function.

The server holds no state. A request is checked (:mod:`.requests`), handed to a process that can be ended
(:mod:`.workers`), computed by the public interface (:mod:`.jobs`) and sent back line by line; the page in ``static/``
draws it.
"""
