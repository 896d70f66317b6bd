"""Weights in files: what is written comes back, and what is damaged is refused."""

import json
from dataclasses import replace

import pytest
import torch
from draws import normal
from models import KINDS, filled

from tinyattn import Transformer, fold, load_model, save_model
from tinyattn.checkpoint import assemble
from tinyattn.weights import read_weights, write_weights

TOKENS = torch.tensor([[1, 4, 2, 2, 0, 5], [3, 3, 6, 1, 0, 2]])
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(tmp_path, dtype):
    tensors = {
        "W": (10 * normal(0, 3, 5)).abs().to(dtype),
        "scalar": torch.tensor(3, dtype=dtype),
        "empty": torch.empty(0, 4, dtype=dtype),
        "a view": (10 * normal(1, 4, 6)).abs().to(dtype).T[::2],
        "flags": torch.tensor([True, False, True]),
    }
    write_weights(tmp_path / "w.safetensors", tensors, {"licence": "MIT, © nobody"})
    back, notes = read_weights(tmp_path / "w.safetensors")
    assert notes == {"licence": "MIT, © nobody"}
    assert list(back) == list(tensors)
    assert all(torch.equal(back[name], t) for name, t in tensors.items())
    assert all(back[name].dtype == t.dtype for name, t in tensors.items())


def test_the_bytes_are_those_of_the_format(tmp_path):
    """Written out by hand: length, header, numbers."""
    path = tmp_path / "w.safetensors"
    write_weights(path, {"W": torch.tensor([1.0, 2.0])})
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert header == {"W": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    assert data[8 + length :] == b"\x00\x00\x80\x3f\x00\x00\x00\x40"
    assert length % 8 == 0


def test_what_is_read_is_not_tied_to_the_file(tmp_path):
    path = tmp_path / "w.safetensors"
    write_weights(path, {"W": torch.ones(2)})
    back = read_weights(path)[0]["W"]
    write_weights(path, {"W": torch.zeros(2)})
    back += 1
    assert back.tolist() == [2, 2]
    assert read_weights(path)[0]["W"].tolist() == [0, 0]
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


@pytest.mark.parametrize("size", [0, 4, 40, -1])
def test_half_a_file_is_refused(tmp_path, size):
    path = tmp_path / "w.safetensors"
    write_weights(path, {"W": torch.ones(20)})
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"is not a whole safetensors file: .* download it again"):
        read_weights(path)


def test_another_kind_of_file_is_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes((9).to_bytes(8, "little") + b"not json!" + bytes(20))
    with pytest.raises(ValueError, match="is not a safetensors file: its header is no JSON"):
        read_weights(path)


def test_a_header_that_lies_is_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    header = json.dumps({"W": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ValueError, match=r"W has shape \[3\] but 8 bytes: damaged file"):
        read_weights(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*w\.safetensors: check the name"):
        read_weights(tmp_path / "w.safetensors")


def test_a_tensor_without_values_cannot_be_written(tmp_path):
    with pytest.raises(ValueError, match=r"W is torch\.float32 on meta: it cannot be written"):
        write_weights(tmp_path / "w", {"W": torch.empty(2, device="meta")})


@pytest.mark.parametrize("kind", KINDS)
def test_b12_a_model_comes_back_as_it_was(tmp_path, kind):
    """Shared tensors could not be saved, or came back untied."""
    model = filled(KINDS[kind], dtype=torch.float32)
    save_model(model, tmp_path / "m.safetensors", made_by="a test")
    again = load_model(tmp_path / "m.safetensors")
    assert again.config == model.config
    assert torch.equal(again(TOKENS), model(TOKENS))
    assert ("W_U" in read_weights(tmp_path / "m.safetensors")[0]) != model.config.tied
    assert read_weights(tmp_path / "m.safetensors")[1]["made_by"] == "a test"


def test_a_folded_model_comes_back_too(tmp_path):
    model = fold(filled(KINDS["gpt2"], dtype=torch.float32))
    save_model(model, tmp_path / "m.safetensors")
    assert torch.equal(load_model(tmp_path / "m.safetensors")(TOKENS), model(TOKENS))


def test_half_precision_halves_the_file(tmp_path):
    model = filled(KINDS["attention only"], dtype=torch.float32)
    sizes = []
    for dtype in (torch.float32, torch.float16):
        save_model(model, tmp_path / "m.safetensors", dtype=dtype)
        sizes.append(sum(t.nbytes for t in read_weights(tmp_path / "m.safetensors")[0].values()))
    again = load_model(tmp_path / "m.safetensors")
    assert sizes[1] * 2 == sizes[0]
    assert again.W_E.dtype == torch.float32
    assert (again(TOKENS) - model(TOKENS)).abs().max() < 0.05


def test_weights_that_do_not_fit_the_config_are_all_named():
    model = filled(KINDS["attention only"])
    state = model.state_dict()
    state["W_up"] = state.pop("W_U")
    with pytest.raises(ValueError, match="W_U is missing; W_up is not known; W_E is"):
        assemble(replace(model.config, d_vocab=12), state)


def test_a_model_owns_its_weights():
    state = {name: t.clone() for name, t in filled(KINDS["gpt2"]).state_dict().items()}
    model = assemble(KINDS["gpt2"], state)
    state["W_E"].zero_()
    assert model.W_E.abs().sum() > 0
    assert model.layers[0].W_Q.transpose(0, 1).is_contiguous()  # all heads read in one product


def test_a_file_without_a_config_is_no_model(tmp_path):
    write_weights(tmp_path / "w", {"W": torch.ones(2)})
    with pytest.raises(ValueError, match="holds no config"):
        load_model(tmp_path / "w")
    with pytest.raises(ValueError, match="the note 'config' is written by itself"):
        save_model(Transformer(KINDS["gpt2"]), tmp_path / "w", config="mine")
