import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.infer import person

MYEGO = Path(__file__).parents[3] / "shared" / "data" / "myego" / "data" / "myego.json"
FIRST = re.compile(r"\b(i|me|my|mine|myself|we|us|our|ours|ourselves|im|ive)\b", re.IGNORECASE)
PAIRS = [
    ("Where did I put the cup?", "Where did the camera wearer put the cup?", "Where did someone put the cup?"),
    ("What am I holding?", "What is the camera wearer holding?", "What is someone holding?"),
    ("Am i sitting?", "Is the camera wearer sitting?", "Is someone sitting?"),
    ("Do I have a key?", "Does the camera wearer have a key?", "Does someone have a key?"),
    ("Don't I need a bag?", "Doesn't the camera wearer need a bag?", "Doesn't someone need a bag?"),
    ("Have I paid?", "Has the camera wearer paid?", "Has someone paid?"),
    ("Haven’t I paid?", "Hasn't the camera wearer paid?", "Hasn't someone paid?"),
    ("Was I first?", "Was the camera wearer first?", "Was someone first?"),
    ("Were we late?", "Was the camera wearer's group late?", "Was someone late?"),
    ("Can I open it?", "Can the camera wearer open it?", "Can someone open it?"),
    ("Should I wash it?", "Should the camera wearer wash it?", "Should someone wash it?"),
    ("I am where?", "The camera wearer is where?", "Someone is where?"),
    ("What i'm eating?", "What the camera wearer is eating?", "What someone is eating?"),
    ("I’ve lost it. Where?", "The camera wearer has lost it. Where?", "Someone has lost it. Where?"),
    ("What is the pan im using?", "What is the pan the camera wearer is using?", "What is the pan someone is using?"),
    ("Which one I'll take?", "Which one the camera wearer will take?", "Which one someone will take?"),
    ("Is that what I'd like?", "Is that what the camera wearer would like?", "Is that what someone would like?"),
    ("Whose is the cup I use?", "Whose is the cup the camera wearer uses?", "Whose is the cup someone uses?"),
    ("Where is what I just try?", "Where is what the camera wearer just tries?", "Where is what someone just tries?"),
    ("Is it the door I touch?", "Is it the door the camera wearer touches?", "Is it the door someone touches?"),
    ("Is it the cup I do have?", "Is it the cup the camera wearer does have?", "Is it the cup someone does have?"),
    ("Is this what I put down?", "Is this what the camera wearer put down?", "Is this what someone put down?"),
    ("What have I cut?", "What has the camera wearer cut?", "What has someone cut?"),
    ("Where is the bag I took?", "Where is the bag the camera wearer took?", "Where is the bag someone took?"),
    ("What color is my hat?", "What color is the camera wearer's hat?", "What color is the hat?"),
    ("My hat is where?", "The camera wearer's hat is where?", "The hat is where?"),
    ("Is it my own cup?", "Is it the camera wearer's own cup?", "Is it someone's own cup?"),
    ("Which pen is mine?", "Which pen is the camera wearer's?", "Which pen is someone's?"),
    ("Is that our tent?", "Is that the camera wearer's group's tent?", "Is that the tent?"),
    ("Are the tents ours?", "Are the tents the camera wearer's group's?", "Are the tents someone's?"),
    ("Who gave me this?", "Who gave the camera wearer this?", "Who gave someone this?"),
    ("Who is behind us?", "Who is behind the camera wearer's group?", "Who is behind someone?"),
    ("Did I fix it myself?", "Did the camera wearer fix it themselves?", "Did someone fix it themselves?"),
    ("Where did we stop?", "Where did the camera wearer's group stop?", "Where did someone stop?"),
    ("What are we doing?", "What is the camera wearer's group doing?", "What is someone doing?"),
    ("What do I and he eat?", "What do the camera wearer and he eat?", "What do someone and he eat?"),
    ("What am I and he eating?", "What are the camera wearer and he eating?", "What are someone and he eating?"),
    ("Did he or I get it?", "Did he or the camera wearer get it?", "Did he or someone get it?"),
    ("Is the hair of the girl beside me's red?", "Is the hair of the girl beside the camera wearer's red?",
     "Is the hair of the girl beside someone's red?"),
    ('Where is the sign "I love my dog"?', 'Where is the sign "I love my dog"?', 'Where is the sign "I love my dog"?'),
    ("Is the US flag in Ohio?", "Is the US flag in Ohio?", "Is the US flag in Ohio?"),
    ("Who is he?", "Who is he?", "Who is he?"),
    ("WHERE DID I SIT?", "WHERE DID the camera wearer SIT?", "WHERE DID someone SIT?"),
    ("What DO I like?", "What DOES the camera wearer like?", "What DOES someone like?"),
    # Options
    ("In my hand.", "In the camera wearer's hand.", "In the hand."),
    ("On the chair next to me.", "On the chair next to the camera wearer.", "On the chair next to someone."),
    ("Mine", "The camera wearer's", "Someone's"),
    ("Me.", "The camera wearer.", "Someone."),
    ("I.", "The camera wearer.", "Someone."),
    ("My friend and I", "The camera wearer's friend and the camera wearer", "The friend and someone"),
    ("WE CAN DO IT!.", "WE CAN DO IT!.", "WE CAN DO IT!."),
    ("I WANT YOU FOR U.S ARMY.", "I WANT YOU FOR U.S ARMY.", "I WANT YOU FOR U.S ARMY."),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "enhanced", "removed"), PAIRS)
def test_by_hand(asked, enhanced, removed):
    assert person.rephrase(asked, "camera_wearer") == enhanced
    assert person.rephrase(asked, "removed") == removed
    assert person.rephrase(asked, "as_asked") == asked


WORDS = [
    "I",
    "i",
    "my",
    "Mine",
    "me",
    "We",
    "our",
    "I'm",
    "i’ve",
    "am",
    "Do",
    "have",
    "use",
    "just",
    "and",
    "own",
    "cup",
]
SENTENCE = st.lists(st.sampled_from([*WORDS, " ", " ", "?", "'", '"', ". "]), max_size=14).map("".join)


@given(st.sampled_from(sorted(person.FORMS)), SENTENCE | st.text(max_size=40))
def test_any_text_can_be_rephrased_and_a_second_time_changes_nothing(how, text):
    once = person.rephrase(text, how)
    assert person.rephrase(once, how) == once


@given(st.sampled_from(sorted(person.FORMS)), st.lists(st.sampled_from(WORDS), max_size=10))
def test_no_first_person_is_left(how, words):
    said = person.rephrase(" ".join(words), how)
    assert not FIRST.search(said)
    assert said.count("cup") == words.count("cup"), "what is nobody's stays"


@given(st.sampled_from(sorted(person.FORMS)), st.text(max_size=40))
def test_what_says_nothing_of_anybody_is_left_alone(how, text):
    if not FIRST.search(text) and not re.search(r"(?i)\b(i|we)['’`]", text):
        assert person.rephrase(text, how) == text


def annotations():
    if not MYEGO.is_file():
        pytest.skip("no annotations of MyEgo beside the repository")
    return json.loads(MYEGO.read_text(encoding="utf-8"))


def myego():
    return [one["question"] for one in annotations()]


@pytest.mark.parametrize("how", sorted(person.FORMS))
def test_no_first_person_is_left_in_myego(how):
    asked = myego()
    assert len(asked) == 5012
    said = [person.rephrase(question, how) for question in asked]
    assert [one for one in said if FIRST.search(one)] == []
    assert [one for one in said if re.search(r"(?i)\bam\b|\bdo (the camera wearer|someone)\b(?!')", one)] == []
    changed = sum(one != question for one, question in zip(said, asked, strict=True))
    assert changed == sum(bool(FIRST.search(question)) for question in asked) > 4000


@pytest.mark.parametrize("how", sorted(person.FORMS))
def test_no_first_person_is_left_in_myegos_options_and_none_become_alike(how):
    changed = set()
    for one in annotations():
        options = [re.sub(r"^[A-Z]\. ", "", option) for option in one["options"]]
        said = [person.rephrase(option, how) for option in options]
        assert len(set(said)) == len(set(options)), one["question_id"]  # some are alike as they come
        # What stays is text in the picture: in quotes, or in capitals throughout.
        assert not any(FIRST.search(re.sub(r'"[^"]*"', "", option)) for option in said if not option.isupper()), said
        if said != options:
            changed.add(one["question_id"])
    assert len(changed) == 41


def test_most_of_myegos_questions_are_told_apart_from_the_original():
    """Whoever reads the three versions side by side sees that they are three."""
    for question in random.Random(0).sample([one for one in myego() if re.search(r"\bI\b", one)], 50):
        versions = {person.rephrase(question, how) for how in ("as_asked", *person.FORMS)}
        assert len(versions) == 3
