import socket

from lacuner.web.server import DEFAULT_PORT, listen


def test_a_taken_port_does_not_stop_a_server() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", DEFAULT_PORT))
            taken.listen()
        except OSError:
            pass  # somebody has it already, which serves as well
        with listen("127.0.0.1", None) as found:
            assert found.getsockname()[1] not in (0, DEFAULT_PORT)
