"""Runs gRPC between threads of one process: a server with a pool, and clients in threads. Prints every answer as name=hash."""

import hashlib
import random
from concurrent.futures import ThreadPoolExecutor

import grpc

CALLS = 120
CLIENTS = 4


def digest(*parts):
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]


def pieces(request):
    """Splits a message into as many parts as its first byte says."""
    count = request[0] % 30 + 1
    return [request[n::count] for n in range(count)]


class Service(grpc.GenericRpcHandler):
    def service(self, details):
        kind = details.method.rpartition("/")[2]
        return {
            "One": grpc.unary_unary_rpc_method_handler(lambda request, _: request[::-1]),
            "Many": grpc.unary_stream_rpc_method_handler(lambda request, _: iter(pieces(request))),
            "Sum": grpc.stream_unary_rpc_method_handler(lambda requests, _: b"".join(sorted(requests))),
            "Both": grpc.stream_stream_rpc_method_handler(lambda requests, _: (r[::-1] for r in requests)),
            "Refuse": grpc.unary_unary_rpc_method_handler(self.refuse),
        }.get(kind)

    @staticmethod
    def refuse(request, context):
        context.abort(grpc.StatusCode.NOT_FOUND, "no " + str(len(request)))


def refused(channel, request):
    try:
        channel.unary_unary("/s/Refuse")(request, timeout=60)
    except grpc.RpcError as said:
        return f"{said.code().name} {said.details()}".encode()
    return b"not refused"


def client(port, number):
    chance, lines = random.Random(number), []
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        for turn in range(CALLS):
            request = chance.randbytes(chance.choice((1, 50, 700, 9000, 80000, 900000)) + chance.randrange(40))
            parts = pieces(request)
            later = [channel.unary_unary("/s/One").future(part or b"x", timeout=60) for part in parts]
            found = {
                "one": channel.unary_unary("/s/One")(request, timeout=60),
                "many": b"/".join(channel.unary_stream("/s/Many")(request, timeout=60)),
                "sum": channel.stream_unary("/s/Sum")(iter(parts), timeout=60),
                "both": b"/".join(channel.stream_stream("/s/Both")(iter(parts), timeout=60)),
                "refused": refused(channel, request),
                "later": b"/".join(call.result() for call in later),
            }
            lines += [f"client{number}.{turn}.{name}={digest(answer)}" for name, answer in found.items()]
    return lines


def main():
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Service(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with ThreadPoolExecutor(CLIENTS) as pool:
        for lines in pool.map(lambda number: client(port, number), range(CLIENTS)):
            print("\n".join(lines))
    server.stop(5).wait()
    print("stopped=yes")


main()
