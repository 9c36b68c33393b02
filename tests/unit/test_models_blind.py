"""What no look at the video is worth."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scripts.judges.option_letter import read_option
from scripts.models import blind, find
from scripts.models.answers import is_unanswerable
from scripts.models.protocol import Request

WORDS = st.lists(st.text(max_size=8), min_size=1, max_size=26)


def request(question, options, key="k"):
    return Request(key, (), (), "", "prompt", question, options)


def ask(seed, *requests):
    return [reply for _, reply in blind.load({}, None, seed)(requests)]


def test_an_open_question_is_unanswerable_in_the_word_that_is_read():
    (reply,) = ask(0, request("what does the sign say?", None))
    assert (reply.status, reply.raw, reply.answer) == ("unanswerable", "Unanswerable", "Unanswerable")
    assert is_unanswerable(reply.answer)
    assert (list(reply.times), reply.visual_tokens, reply.dollars) == ([], None, None)


def test_letters_are_drawn_evenly():
    """3000 questions of 5 options: each letter 600 times, give or take 3.3 standard deviations of 22."""
    replies = ask(7, *(request(f"question {number}", list("vwxyz")) for number in range(3000)))
    counts = Counter(reply.answer for reply in replies)
    assert set(counts) == set("ABCDE")
    assert all(abs(count - 600) < 72 for count in counts.values()), counts
    assert {reply.status for reply in replies} == {"ok"}


@given(seed=st.integers(0, 2**31), question=st.text(max_size=30), options=WORDS)
def test_a_letter_is_of_the_question_not_of_the_run(seed, question, options):
    one = request(question, options, "first")
    (alone,) = ask(seed, one)
    *_, last = ask(seed, request("another", ["x", "y"]), request(question, tuple(options), "later"))
    assert alone.answer == last.answer
    assert ord("A") <= ord(alone.answer) < ord("A") + len(options)


def test_another_seed_draws_others():
    asked = [request(f"question {number}", list("wxyz")) for number in range(200)]
    one, two = ([reply.answer for reply in ask(seed, *asked)] for seed in (1, 2))
    same = sum(a == b for a, b in zip(one, two, strict=True))
    assert 20 < same < 85, "a quarter of them by chance"


def test_its_letter_is_read_as_that_option():
    options = ["yes", "no", "a bus", "option A"]
    letters = [read_option(ask(seed, request("q", options))[0].answer, options) for seed in range(40)]
    assert set(letters) == set("ABCD")


def test_every_request_is_answered_once_as_it_is_drawn():
    drawn = []

    def requests():
        for number in range(5):
            drawn.append(number)
            yield request(str(number), None, str(number))

    answered = blind.load({}, None, 0)(requests())
    assert next(answered)[0].key == "0"
    assert drawn == [0], "no request is drawn ahead of its turn"
    assert [asked.key for asked, _ in answered] == ["1", "2", "3", "4"]


def test_it_needs_nothing_installed():
    adapter = find("blind")
    assert (adapter.engine, adapter.conditions({})) == ("blind 1", {})
