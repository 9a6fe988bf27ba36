"""The least of a tus client: what tests send by hand."""

from __future__ import annotations

import socket
from base64 import b64encode
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import httpx

VERSION = {"Tus-Resumable": "1.0.0"}
BYTES = {**VERSION, "Content-Type": "application/offset+octet-stream"}


def metadata(**words: str) -> str:
    """The header ``Upload-Metadata``."""
    return ",".join(f"{key} {b64encode(word.encode()).decode()}" for key, word in words.items())


def capture(client: httpx.Client) -> str:
    """A new capture's id."""
    return client.post("/v1/captures", json={"name": "tiny"}).json()["id"]


def begin(client: httpx.Client, capture: str, length: int, camera: str = "c0", kind: str = "video") -> str:
    """A new upload's address."""
    words = metadata(camera=camera, kind=kind, filename=f"{camera}.mp4")
    headers = {**VERSION, "Upload-Length": str(length), "Upload-Metadata": words}
    answer = client.post(f"/v1/captures/{capture}/uploads", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"]


def append(client: httpx.Client, upload: str, offset: int, data: bytes) -> httpx.Response:
    """Sends bytes from an offset on."""
    return client.patch(upload, headers={**BYTES, "Upload-Offset": str(offset)}, content=data)


def stands(client: httpx.Client, upload: str) -> int:
    """Where the service says that the upload stands."""
    answer = client.head(upload, headers=VERSION)
    assert answer.status_code == 200, answer
    return int(answer.headers["Upload-Offset"])


def send_rest(url: str, upload: str, file: Path, offset: int) -> HTTPResponse:
    """Sends a file from an offset to its end in one request, in large pieces; the body of the answer is not read."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=120, blocksize=2**20)
    with closing(connection), file.open("rb") as body:
        body.seek(offset)
        length = file.stat().st_size - offset
        headers = {**BYTES, "Upload-Offset": str(offset), "Content-Length": str(length)}
        connection.request("PATCH", upload, body, headers)
        answer = connection.getresponse()
        answer.close()
        return answer


def send_and_stall(url: str, upload: str, file: Path, offset: int, stop: int) -> socket.socket:
    """Begins to send a file from an offset to its end, but keeps still at ``stop``; close what it returns."""
    address = urlsplit(url)
    headers = {**BYTES, "Host": address.netloc, "Upload-Offset": offset, "Content-Length": file.stat().st_size - offset}
    lines = [f"PATCH {upload} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    connection = socket.create_connection((address.hostname, address.port), timeout=120)
    connection.sendall("\r\n".join(lines).encode())
    with file.open("rb") as body:
        connection.sendfile(body, offset, stop - offset)
    return connection


def write_large(small: Path, large: Path, size: int) -> Path:
    """A video with nothing in it but a small one and a box of zeros that players pass over; the disk holds a hole."""
    data = small.read_bytes()
    rest = size - len(data)
    with large.open("wb") as file:
        file.write(data + (1).to_bytes(4, "big") + b"free" + rest.to_bytes(8, "big"))
        file.truncate(size)
    return large
