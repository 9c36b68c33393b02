"""Option letters read from replies: every dress of a letter, and no guess where there is none or more than one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.judges.option_letter import read_option

OPTIONS = ["10", "10 miles", "Maple Street", "Café", "दिल्ली"]


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("B", "B"),
        (" b ", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("**B**", "B"),
        ("\\boxed{B}", "B"),
        ("<answer>B</answer>", "B"),
        ("Option D", "D"),
        ("The answer is B", "B"),
        ("The answer is (A).", "A"),
        ("The answer is A because it is printed", "A"),
        ("Answer: b)", "B"),
        ("answer: **C**", "C"),
        ("The best answer is:\nA", "A"),
        ("I think it's C", "C"),
        ("B. 10 miles", "B"),
        ("B) 10 miles", "B"),
        ("B\nbecause the sign says so", "B"),
        ("Answer is B. 10 miles", "B"),
        ("(A) looks wrong, (C) too. The answer is B.", "B"),
        ("A. 10\nB. 10 miles\nThe answer is B", "B"),
        ("10 miles", "B"),
        ("it says 10 miles", "B"),
        ("maple  street!", "C"),
        ("CAFE\u0301", "D"),
        ("दिल्ली", "E"),
        ("C: Maple Street", "C"),
        ("Option A is right", "A"),
        ("The answer is not obvious, but the correct answer is: (C)", "C"),
    ],
)
def test_letter_is_read(reply: str, letter: str) -> None:
    assert read_option(reply, OPTIONS) == letter


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I don't know",
        "F",
        "The answer is F",
        "It is B or C",
        "A, B",
        "B C",
        "The answer is B. No, the answer is C.",
        "A. 10\nB. 10 miles\nC. Maple Street",
        "10 miles or Maple Street",
        "A sign in the street",
        "The answer is a sign",
        "Answer: A bus",
        "Vitamin C is good",
        "My answer is not B",
        "The answer is A green sign",
        "Option A is not right",
        "I first thought option A, but the correct answer is: (C)",
    ],
)
def test_no_letter_is_not_a_guess(reply: str) -> None:
    assert read_option(reply, OPTIONS) is None


def test_letters_end_with_the_options() -> None:
    assert read_option("E", OPTIONS) == "E"
    assert read_option("E", OPTIONS[:2]) is None
    assert read_option("Yes, it is", ["Yes", "No"]) == "A"


@given(st.text(max_size=40), st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5))
def test_any_reply_gives_a_letter_of_an_option_or_none(reply: str, options: list[str]) -> None:
    assert read_option(reply, options) in {None, *"ABCDE"[: len(options)]}


@given(
    st.sampled_from("ABCDE"), st.sampled_from(["{}", "({})", "{}.", "Answer: {}", "The answer is {}", "**{}**", "{})"])
)
def test_every_dress_of_every_letter(letter: str, dress: str) -> None:
    assert read_option(dress.format(letter), OPTIONS) == letter
