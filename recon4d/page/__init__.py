"""Page: one scene in a browser, as files that any server can send.

Input       nothing.
Output      the folder of the scene page (``page_files``), and the headers that it is to be sent with
            (``page_headers``).
Owns        the page: its modules, its style, and the vendored libraries that draw.
Does not    serve, write a scene's own files (``recon4d.show`` does both), or import anything: services that never
            touch a tensor send it too.
"""

from recon4d.page._files import page_files, page_headers

__all__ = ["page_files", "page_headers"]
