import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.models.answers import answer_text, is_unanswerable

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NO_TAGS = TEXT.filter(lambda text: "<" not in text)


@given(NO_TAGS, NO_TAGS)
def test_the_answer_block_is_found_inside_anything(answer, around):
    assert answer_text(f"{around}<answer>{answer}</answer>{around}") == answer.strip()


@given(NO_TAGS)
def test_a_plain_reply_is_its_own_answer(reply):
    assert answer_text(reply) == answer_text(reply, thinking=True) == reply.strip()


@given(TEXT)
def test_reading_any_reply_never_fails(reply):
    for thinking in (False, True):
        assert isinstance(answer_text(reply, thinking), str)
    assert is_unanswerable(reply) in (True, False)


@pytest.mark.parametrize(
    ("raw", "thinking", "answer"),
    [
        ("<think>[t=1s] 'ÇIKIŞ'</think>\n<answer>ÇIKIŞ</answer>", False, "ÇIKIŞ"),
        ("<think>is it A?</think>\n\nB", True, "B"),
        ("no, <answer>one</answer> but\n<answer>two\nlines</answer>", False, "two\nlines"),
        ("so it is B</think> maybe <answer>C", True, "maybe <answer>C"),
        ("<think>x</think>y", False, "<think>x</think>y"),
    ],
)
def test_marks_are_read_as_the_model_writes_them(raw, thinking, answer):
    assert answer_text(raw, thinking) == answer


def test_unanswerable_is_recognised_in_the_word_asked_for():
    assert is_unanswerable("’Unanswerable’. I see no sign.")
    assert is_unanswerable("UNANSWERABLE")
    assert not is_unanswerable("The sign says: unanswerable questions")
    assert not is_unanswerable("Unanswerables")
