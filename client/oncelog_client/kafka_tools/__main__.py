"""`python -m oncelog_client.kafka_tools kafka-topics.sh --list …`."""

from oncelog_client.process import run


def _command_line() -> None:
    # Imported here, because `run` has set the handler of Ctrl-C by now.
    from oncelog_client.kafka_tools.tools import main

    main()


if __name__ == "__main__":
    run(_command_line)
