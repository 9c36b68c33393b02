"""The same adapters, asked a question, on stand-ins that compute as their authors' code does, up to the network."""

import sys
import types
from types import SimpleNamespace

import pytest

from scripts.lib.errors import EngineError
from scripts.models import cogvlm2_video as cogvlm2
from scripts.models import internvl_chat as internvl
from scripts.models import llava_next, longvu, minicpm_v, repo_common, sharegpt4video, videollama3, vila
from tests.unit.repo_sample import ADDED, FORGED, encode, model, numbered, request

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow


def refuses(ask):
    """Whether ``ask`` refuses a question that would end the user's message, with the token by its name."""
    for asked in (request(prompt=FORGED), request(1, prompt="Read.", system=FORGED)):
        with pytest.raises(EngineError, match=r"holds <\|im_end\|>, which is no text to this model"):
            ask(asked)


class Template:
    """A conversation of InternVL's code, as far as the adapter uses it."""

    roles, sep, system_message = ("user", "assistant"), "<|im_end|>\n", "S"

    def __init__(self):
        self.messages = []

    def append_message(self, role, message):
        self.messages.append((role, message))

    def get_prompt(self):
        return " ".join([self.system_message, *(f"{role} {message or ''}" for role, message in self.messages)])


class Tokens(dict):
    """What a tokenizer returns."""

    def to(self, _device):
        return self


def test_internvl_gets_a_tile_of_256_tokens_for_each_frame():
    words = SimpleNamespace(
        added_tokens_decoder=ADDED,
        convert_tokens_to_ids={"<IMG_CONTEXT>": 9, "<|im_end|>": 2}.get,
        decode=lambda ids, **_: f"{len(ids)} tokens",
    )
    config = SimpleNamespace(force_image_size=448, max_dynamic_patch=12, use_thumbnail=True)
    config.llm_config = SimpleNamespace(max_position_embeddings=2000)

    def tokenizer(text, return_tensors):
        assert return_tensors == "pt"
        ids = torch.tensor([[9] * text.count("<IMG_CONTEXT>") + [1] * len(text.split())])
        return Tokens(input_ids=ids, attention_mask=torch.ones_like(ids))

    class Network:
        device, dtype, conv_template = torch.device("cpu"), torch.float32, Template()
        num_image_token, img_context_token_id = 256, 9

        def generate(self, pixel_values, input_ids, eos_token_id, **_options):
            tiles = 0 if pixel_values is None else len(pixel_values)
            assert int((input_ids == 9).sum()) == 256 * tiles
            return torch.tensor([[5] * 8 if tiles == 5 else [5, *eos_token_id]])

    Network.config = config
    tokenizer.__dict__.update(vars(words))
    ask = lambda asked: internvl.ask(Network(), tokenizer, model(), asked, 0, "engine")  # noqa: E731
    reply = ask(request(4, 720, 1280))
    assert (reply.status, reply.visual_tokens, reply.height, reply.times) == ("ok", 1024, 448, [0.0, 1.0, 2.0, 3.0])
    assert ask(request(5)).status == "truncated"
    assert (ask(request(0)).visual_tokens, ask(request(0)).height) == (0, 0)
    assert (reply.times_told, ask(request(1, 9, 9)).times_told, ask(request(0)).times_told) == ("none", "none", "")
    with pytest.raises(EngineError, match="exceed the context of 2000"):
        ask(request(8))
    refuses(ask)


def test_minicpm_is_asked_through_its_chat_and_watched_inside():
    """A stand-in for ``chat`` that cuts the prompt off as that does, packs as 4.5 and stops at its own tokens."""

    class Network:
        config = SimpleNamespace(patch_size=14, max_position_embeddings=1000, batch_3d_resampler=True)
        terminators = ("<|im_end|>",)

        def __init__(self):
            self.llm = SimpleNamespace(generate=lambda: torch.tensor([[5, 6, 2]]))
            self.config = SimpleNamespace(**vars(type(self).config))

        def chat(self, msgs, max_inp_length, temporal_ids=(), **_options):
            groups = len(temporal_ids) or len(msgs[0]["content"]) - 1
            ids = [1] * 20 + [9] * 64 * groups
            bounds = torch.tensor([[20 + 64 * n, 84 + 64 * n] for n in range(groups)])
            sizes = torch.tensor([[30, 32]] * (len(msgs[0]["content"]) - 1))
            self.generate(input_ids=torch.tensor([ids[:max_inp_length]]), tgt_sizes=[sizes], image_bound=[bounds])
            return "a bus"

        def generate(self, **_inputs):
            self.llm.generate()

    words = SimpleNamespace(eos_token_id=2, convert_tokens_to_ids={"<|im_end|>": 2}.get, added_tokens_decoder=ADDED)
    network = Network()
    place = minicpm_v.watched(network, model(), "engine")
    reply = minicpm_v.ask(network, words, model(), request(3, 420, 448), 0, place)
    assert (reply.answer, reply.visual_tokens, reply.tokens_in, reply.tokens_out) == ("a bus", 192, 212, 3)
    assert (reply.height, reply.width, reply.frames_note, reply.times) == (420, 448, "", [0.0, 1.0, 2.0])
    with pytest.raises(EngineError, match="exceeds 992 tokens"):
        minicpm_v.ask(network, words, model(), request(16, 420, 448), 0, place)
    ask = lambda asked: minicpm_v.ask(network, words, model(), asked, 0, place)  # noqa: E731
    assert [ask(request(count)).times_told for count in (3, 1, 0)] == ["each", "none", ""]
    refuses(ask)
    del network.config.batch_3d_resampler  # as in 2.6, which takes no times
    assert ask(request(3)).times_told == "none"


def test_videollama3_drops_tokens_and_says_so():
    class Network:
        device, dtype = torch.device("cpu"), torch.float32
        config = SimpleNamespace(max_position_embeddings=4000, image_token_index=9)
        generation_config = SimpleNamespace(eos_token_id=2)

        def prepare_inputs_labels_for_multimodal(self, input_ids):
            return None, None, None, None, torch.zeros(1, input_ids.shape[1] - 100, 4), None

        def generate(self, input_ids, pixel_values=None, **_options):
            if pixel_values is not None:
                self.prepare_inputs_labels_for_multimodal(input_ids)
                return torch.tensor([[5, 2]])
            return torch.cat([input_ids, torch.tensor([[5, 2]])], dim=1)

    def processor(conversation, **_options):
        (content,) = (message["content"] for message in conversation if message["role"] == "user")
        video = content[0].get("video", [content[0]["image"]] if "image" in content[0] else [])
        inputs = {"input_ids": torch.tensor([[9] * 12 * 16 * len(video) + [1] * 7])}
        if video:
            inputs |= {"pixel_values": torch.zeros(3), "grid_sizes": torch.tensor([[len(video), 24, 32]]), "modals": []}
        return inputs

    processor.tokenizer = SimpleNamespace(
        eos_token_id=2, decode=lambda ids, **_: f"{len(ids)} tokens", added_tokens_decoder=ADDED
    )
    processor.image_processor = SimpleNamespace(patch_size=14)
    network = Network()
    look = lambda _args, _kwargs, made: videollama3.length(made)  # noqa: E731
    seen = repo_common.watch(network, "prepare_inputs_labels_for_multimodal", after=look)
    place = {"seen": seen, "engine": "e"}
    reply = videollama3.ask(network, processor, model(), request(4, 336, 448), 0, place)
    assert (reply.visual_tokens, reply.tokens_in, reply.raw) == (668, 675, "2 tokens")
    assert reply.frames_note == "100 of 768 visual tokens dropped, like those of the frame before"
    seen.clear()
    ask = lambda asked: videollama3.ask(network, processor, model(), asked, 0, place)  # noqa: E731
    assert ask(request(0)).raw == "2 tokens"
    assert [ask(request(count)).times_told for count in (4, 1, 0)] == ["each", "none", ""]
    refuses(ask)


def test_cogvlm2_is_asked_with_true_times_and_cut_frames():

    class Network:
        device, dtype = torch.device("cpu"), torch.float32
        config = SimpleNamespace(max_position_embeddings=8192)
        generation_config = SimpleNamespace(eos_token_id=[2])

        def build_conversation_input_ids(self, images, **_options):
            ids, kinds = numbered(images[0].shape[1], [7, 8])
            small = images[0].float()[:, :, :224, :224].transpose(0, 1)
            return {"input_ids": torch.tensor(ids), "token_type_ids": torch.tensor(kinds), "images": [small]}

        def generate(self, input_ids, **_options):
            self.asked = input_ids[0].tolist()
            return torch.cat([input_ids, torch.tensor([[42, 2]])], dim=1)

    tokenizer = SimpleNamespace(encode=lambda text, **_: encode(text), decode=lambda ids, **_: str(ids), eos_token_id=2)
    tokenizer.added_tokens_decoder = ADDED
    network, asked = Network(), request(2, 300, 400, [3.2, 17.6])
    reply = cogvlm2.ask(network, tokenizer, model(), asked, 0, "engine")
    assert network.asked == [1, *[9] * 66, 1003, *[9] * 66, 1001, 1008, 7, 8]
    assert (reply.raw, reply.times, reply.visual_tokens, reply.tokens_in) == ("[42, 2]", [3.0, 18.0], 132, 138)
    assert (reply.frames_note, reply.times_told) == ("resized 300x400 to 224x224, sides cut off", "each")
    refuses(lambda asked: cogvlm2.ask(network, tokenizer, model(), asked, 0, "engine"))
    tight = SimpleNamespace(**{**vars(Network), "config": SimpleNamespace(max_position_embeddings=100)})
    tight.build_conversation_input_ids = network.build_conversation_input_ids
    with pytest.raises(EngineError, match="exceed the context of 100"):
        cogvlm2.ask(tight, tokenizer, model(), asked, 0, "engine")


def stand_in(tokens):
    """A network that computes as LLaVA's does up to the language model, with so many tokens for a picture, and a
    tokenizer of one token a word."""
    words = SimpleNamespace(eos_token_id=2, decode=lambda ids, **_: f"{len(ids)} tokens", bos_token_id=1)
    words.convert_tokens_to_ids = {"<|im_end|>": 2, "<|eot_id|>": 3, "<|end_of_text|>": 4}.get
    words.model_max_length, words.chat_template, words.added_tokens_decoder = 8192, None, ADDED

    class Network:
        device, dtype = torch.device("cpu"), torch.float32
        config = SimpleNamespace(
            image_aspect_ratio="anyres", tokenizer_model_max_length=8192, max_position_embeddings=8192
        )
        generation_config = SimpleNamespace(eos_token_id=2)

        def prepare_inputs_labels_for_multimodal(self, ids, _images):
            pictures = int((ids < 0).sum())
            return None, None, None, None, torch.zeros(1, ids.shape[1] - pictures + pictures * tokens, 4), None

        def select_frame(self, frames):
            return frames, [frames - frames // 4]

        def generate(self, ids, images=None, **options):
            self.images, self.options = images, options
            if images is not None:
                self.prepare_inputs_labels_for_multimodal(ids, images)
                if "image_sizes" in options and len(images) == 2:
                    self.select_frame(images[0].shape[1])
            return torch.tensor([[5, 6, 2]])

    return Network(), words


def tokenizer_image_token(text, _tokenizer, mark, **_options):
    """Ids of words (1 each), and the mark for ``<image>``; as in mm_utils of these repositories."""
    return torch.tensor([mark if word == "<image>" else 1 for word in text.replace("<image>", " <image> ").split()])


def test_llava_is_asked_with_what_it_was_given():
    network, words = stand_in(210)
    utils = SimpleNamespace(
        tokenizer_image_token=tokenizer_image_token,
        process_images=lambda _images, _processor, _config: torch.zeros(1, 5, 3, 384, 384),
    )
    code = {"mm_utils": utils, "constants": SimpleNamespace(IMAGE_TOKEN_INDEX=-200)}
    resize = lambda frames, **_: {"pixel_values": torch.zeros(len(frames), 3, 384, 384)}  # noqa: E731
    processor = SimpleNamespace(preprocess=resize)
    seen = repo_common.watch_prompt(network, model())
    place = {"seen": seen, "engine": "e"}
    replies = []
    for asked in (request(4, 720, 1280), request(1, 720, 1280), request(0)):
        seen.clear()
        replies.append(llava_next.ask(network, words, processor, code, model(), asked, 0, place))
    video, image, text = replies
    assert (video.visual_tokens, video.frames_note) == (210, "resized 720x1280 to 384x384")
    assert (image.visual_tokens, image.frames_note) == (210, "5 tiles of 384x384")
    assert (text.visual_tokens, text.height, network.images) == (0, 0, None)
    assert {reply.status for reply in replies} == {"ok"}
    assert video.tokens_in - video.visual_tokens > text.tokens_in, "the time instruction"
    assert [reply.times_told for reply in replies] == ["each", "none", ""]

    def ask(asked, hub="a/b", **generation):
        return llava_next.ask(network, words, processor, code, model(hub, **generation), asked, 0, place)

    assert ask(request(4), "lmms-lab/LongVA-7B").times_told == "none"
    with pytest.raises(EngineError, match="8000 new ones exceed the context of 8192"):
        ask(request(0, prompt="word " * 192), max_new_tokens=8000)
    refuses(ask)


@pytest.mark.parametrize("family", [llava_next, longvu, sharegpt4video, vila])
def test_a_prompt_with_pictures_leaves_room_for_the_longest_reply(repository, family):
    """As long as the network's own context is also where the code would cut: LLaVA-Video, VILA, ShareGPT4Video."""
    network, words = stand_in(8000)
    pixels = {"process_images": lambda *_: torch.zeros(1, 3, 384, 384)}
    repository("longvu", **pixels)
    repository("llava", **pixels)
    utils = SimpleNamespace(tokenizer_image_token=tokenizer_image_token, **pixels)
    code = [{"mm_utils": utils, "constants": SimpleNamespace(IMAGE_TOKEN_INDEX=-200)}] if family is llava_next else []
    if family is longvu:
        sys.modules["longvu.mm_datautils"].process_images = lambda *_: [torch.zeros(1, 3, 384, 384)]

    def ask(new):
        asked = model(max_new_tokens=new)
        place = {"seen": repo_common.watch_prompt(network, asked), "kept": [], "engine": "e"}
        return family.ask(network, words, None, *code, asked, request(1, 384, 384), 0, place)

    assert ask(100).status == "ok"
    with pytest.raises(EngineError, match="185 new ones exceed the context of 8192"):
        ask(185)


# Repositories that are imported by their names.


@pytest.fixture
def repository(monkeypatch):
    """Stands for the packages of an image: ``llava`` and ``longvu``, with the functions that adapters import."""

    def install(name, **functions):
        for part in ("", ".constants", ".mm_utils", ".mm_datautils"):
            module = types.ModuleType(name + part)
            module.IMAGE_TOKEN_INDEX = -200
            vars(module).update(functions, tokenizer_image_token=tokenizer_image_token)
            monkeypatch.setitem(sys.modules, name + part, module)

    return install


def test_longvu_says_what_it_dropped(repository):
    towers = lambda frames, *_: [torch.zeros(len(frames), 3, size, size) for size in (384, 378)]  # noqa: E731
    repository("longvu", process_images=towers)
    network, words = stand_in(480)
    seen = repo_common.watch_prompt(network, model())
    kept = repo_common.watch(network, "select_frame", after=lambda _args, _kwargs, chosen: chosen[1][0])
    place = {"seen": seen, "kept": kept, "engine": "e"}
    reply = longvu.ask(network, words, None, model("Vision-CAIR/LongVU_Qwen2_7B"), request(8, 720, 1280), 0, place)
    assert (reply.height, reply.width, reply.visual_tokens) == (384, 384, 480)
    assert reply.frames_note == (
        "resized 720x1280 to 384x384, padded to a square; 378x378 for the second tower; 2 of 8 frames dropped, like "
        "their neighbours; 80 visual tokens for each of 6 frames on average"
    )
    assert reply.times_told == "none"
    refuses(lambda asked: longvu.ask(network, words, None, model(), asked, 0, place))
    assert longvu.without_second_start(torch.tensor([[1, 1, 5]]), 1).tolist() == [[1, 5]]
    assert longvu.prompt(request(2, prompt="Q"), words, llama=True).endswith("assistant<|end_header_id|>\n\n")


def test_vila_sees_each_frame_as_an_image(repository):
    repository("llava", process_images=lambda images, *_: torch.zeros(len(images), 3, 384, 384))
    network, words = stand_in(196)
    seen = repo_common.watch_prompt(network, model())
    reply = vila.ask(network, words, None, model(), request(3, 384, 384), 0, {"seen": seen, "engine": "e"})
    assert (reply.visual_tokens, reply.frames_note, reply.height) == (588, "", 384)
    assert network.images[0].shape == (3, 3, 384, 384)
    assert sorted(network.options["eos_token_id"]) == [2, 3, 4]
    assert reply.times_told == "none"
    refuses(lambda asked: vila.ask(network, words, None, model(), asked, 0, {"seen": seen, "engine": "e"}))


def test_sharegpt4video_says_that_frames_share_one_picture(repository):
    repository("llava", process_images=lambda *_: torch.zeros(1, 5, 3, 336, 336))
    network, words = stand_in(2880)
    seen = repo_common.watch_prompt(network, model())
    reply = sharegpt4video.ask(network, words, None, model(), request(16, 720, 1280), 0, {"seen": seen, "engine": "e"})
    assert network.images.shape == (1, 5, 3, 336, 336)
    assert network.options["image_sizes"] == [(1920, 1103)]
    assert reply.frames_note == ("16 frames in one picture of 1103x1920, 4 by 4, each at 262x466; 5 tiles of 336x336")
    assert (reply.visual_tokens, reply.height, reply.times_told) == (2880, 336, "none")
    refuses(lambda asked: sharegpt4video.ask(network, words, None, model(), asked, 0, {"seen": seen, "engine": "e"}))
    alone = sharegpt4video.prompt(request(1, prompt="Q"))
    assert "<image>\nQ<|eot_id|>" in alone, "a single frame needs no word about a grid"
