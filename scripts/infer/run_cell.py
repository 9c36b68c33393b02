"""One model answers all questions of a data set on the frames that one sampler chose: one cell, one file.

Every question gets exactly one line, in the order of the questions. Statuses:

  ok, unanswerable            an answer, right or wrong ("unanswerable" is one)
  truncated                   the reply was cut at the model's max_new_tokens
  refused                     a server's content filter, or the model, would not answer: not asked again
  error:video_<why>           no frame can be shown (from the frame plan)
  error:ocr                   the model reads text, and a frame's is missing from --ocr ("detail" says which)
  error:no_options            a letter is asked for and the question has no options
  error:too_many_frames       more frames than the model's max_frames: refused, never thinned
  error:decode, error:engine  decoding or the model failed, with the reason in "detail"
  error:too_long, :request    a server takes no request that long, or not this one
  error:rate_limit, :server, :timeout, :connection, :reply
                              a server did not answer, or not in words, however often it was asked

A question that ends in an error does not stop the others: the file is whole, so Snakemake takes the cell as done and
won't run it again by itself; the last lines of the log say how to try errors again. Answers are kept as they come in
--cache, errors are not: such a run asks only what failed, and a run killed at any moment goes on at the question it was
at. Told to stop (SIGTERM, Ctrl-C) it finishes the questions it is at, and exits with status 1. The frames of the next
questions are decoded in child processes while the model works, once for all questions about a video.

A model behind an API is asked within the budget of --remote, by the prices of --prices; what it has cost is added up in
--spent over all runs. When the next call could pass the budget, the run ends with one line, and goes on another time.
"""

import argparse

from scripts.infer.answer import answer_questions
from scripts.infer.cell import add_arguments, read_cell, read_inputs
from scripts.lib import cli


def build_parser() -> argparse.ArgumentParser:
    return add_arguments(cli.parser(__doc__))


def step(args: argparse.Namespace) -> None:
    cell = read_cell(args)
    answer_questions(args, cell, read_inputs(args, cell), "run_cell")


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
