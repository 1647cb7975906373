"""The C-core client of the end-to-end tests with TLS, where there is no xDS for it.

Debian's gRPC is older than the credentials "tls" of xDS bootstraps. This client
takes the same bootstrap from GRPC_XDS_BOOTSTRAP_CONFIG, connects with the C core's
own TLS, and asks for endpoints on a stream of ADS. Ten times a second it says which
backend they lead to, in the lines that every client here prints:

    {"ok": true,  "backend": "second"}
    {"ok": false, "error": "PERMISSION_DENIED: why"}

The backends are its arguments, as NAME=PORT. Messages of protobuf are written and
read by hand, so that nothing but grpcio has to be installed.
"""

import json
import os
import queue
import sys
import threading
import time

import grpc

ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


def varint(number):
    """A number as protobuf writes it."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """A field of bytes or text."""
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """The fields of a message that hold bytes, by number; the last one of each."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        size = number()  # of bytes, or the value itself
        if tag & 7 == 2:
            found[tag >> 3] = message[at : at + size]
            at += size
    return found


def request(node, names, version=b"", nonce=b""):
    """A DiscoveryRequest for endpoints."""
    message = field(2, field(1, node["id"]) + field(2, node["cluster"])) + field(4, ENDPOINTS)
    for name in names:
        message += field(3, name)
    if nonce:
        message += field(1, version) + field(5, nonce)
    return message


def channel_to(server):
    """A channel with the certificates that a bootstrap names."""
    files = server["channel_creds"][0]["config"]

    def read(name):
        with open(files[name], "rb") as file:
            return file.read()

    credentials = grpc.ssl_channel_credentials(
        root_certificates=read("ca_certificate_file"),
        private_key=read("private_key_file"),
        certificate_chain=read("certificate_file"),
    )
    return grpc.secure_channel(server["server_uri"], credentials)


def main():
    """Follows the endpoints until standard output closes or a signal ends the process."""
    ports = {}
    for argument in sys.argv[1:]:
        name, port = argument.split("=")
        ports[b"\x18" + varint(int(port))] = name  # SocketAddress.port_value
    bootstrap = json.loads(os.environ["GRPC_XDS_BOOTSTRAP_CONFIG"])
    state = {}
    follower = threading.Thread(target=follow, args=(bootstrap, ports, state), daemon=True)
    follower.start()
    while True:
        if state:
            print(json.dumps(dict(state)), flush=True)
        time.sleep(0.1)


def follow(bootstrap, ports, state):
    """Keeps state at what the newest response says, on one stream."""
    node, names = bootstrap["node"], ["svc-endpoints"]
    requests = queue.Queue()
    requests.put(request(node, names))
    channel = channel_to(bootstrap["xds_servers"][0])
    same = lambda message: message  # noqa: E731
    stream = channel.stream_stream(ADS, request_serializer=same, response_deserializer=same)
    try:
        for response in stream(iter(requests.get, None)):
            got = fields(response)
            for port, name in ports.items():
                if port in got.get(2, b""):
                    state.update(ok=True, backend=name)
            requests.put(request(node, names, got.get(1, b""), got.get(5, b"")))
        state.update(ok=False, error="the stream has ended")
    except grpc.RpcError as err:
        state.update(ok=False, error=f"{err.code().name}: {err.details()}")


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(0)
