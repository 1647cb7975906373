"""The C-core client of the end-to-end tests.

Resolves an xds:/// target with gRPC's C core and calls the health service of
whatever backend it is led to, again and again until it is told to stop. Each
call prints one line of JSON, the contract that every client here keeps:

    {"ok": true,  "backend": "second"}
    {"ok": false, "error": "UNAVAILABLE: why"}

The xDS bootstrap comes from GRPC_XDS_BOOTSTRAP_CONFIG. Messages are passed as
bytes (an empty HealthCheckRequest is no bytes at all), so that nothing but
grpcio has to be installed.
"""

import argparse
import json
import sys
import time

import grpc

# The response header in which a test's backend says who it is.
WHO = "x-xdstest-backend"


def main():
    """Calls until standard output closes or a signal ends the process."""
    flags = argparse.ArgumentParser()
    flags.add_argument("--target", default="xds:///svc")
    flags.add_argument("--interval", type=float, default=0.1, help="seconds between calls")
    flags.add_argument("--timeout", type=float, default=20, help="seconds one call may take")
    args = flags.parse_args()

    channel = grpc.insecure_channel(args.target)
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=lambda message: message,
        response_deserializer=lambda message: message,
    )
    while True:
        report(call(check, args.timeout))
        time.sleep(args.interval)


def call(check, timeout):
    """Makes one call and returns what to report about it."""
    try:
        _, done = check.with_call(b"", timeout=timeout)
    except grpc.RpcError as err:
        return {"ok": False, "error": f"{err.code().name}: {err.details()}"}
    # A Python client cannot ask for the peer's address; the backend says who it is.
    names = [value for key, value in done.initial_metadata() if key == WHO]
    return {"ok": True, "backend": names[0] if names else ""}


def report(line):
    """Prints one line of JSON at once."""
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(0)
