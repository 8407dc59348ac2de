"""The command line that the examples of this directory have in common."""

import argparse


def parse(description: str | None, output: str) -> argparse.Namespace:
    """`output` says what the results go to."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092", help="where the brokers are")
    parser.add_argument("--topic", default="orders", help="the topic to read")
    parser.add_argument("--group", default="guarantees", help="the consumer group, where the example uses one")
    parser.add_argument("--output", required=True, help=output)
    return parser.parse_args()
