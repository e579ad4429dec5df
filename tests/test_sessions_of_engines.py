"""Sessions of all engines: saved, opened with nothing at hand, and made again to the same bits; scripts and records."""

import os
from random import Random

import pytest

from napari_gpubio.core.operations import (
    STORE,
    Output,
    State,
    Store,
    digest,
    from_graph,
    graph,
    open_session,
    rerun,
    run,
    save_session,
    script,
    show,
)
from napari_gpubio.core.pages import html_of
from tests.operation_samples import SAMPLES

SESSIONS = int(os.environ.get("NAPARI_GPUBIO_SESSIONS", "4"))  # random ones, of up to five layers each


def random_state(random, device):
    """Layers of random results of random verbs, and a draft."""
    shown = []
    for number in range(random.randint(1, 5)):
        operation = SAMPLES[random.choice([*SAMPLES])](random)
        output = operation.output(random.choice([name for name in operation.makes if operation.has(name)]))
        shown.append(show(output, f"layer {number}", device=device))
    return State(tuple(shown), (("panel", SAMPLES[random.choice([*SAMPLES])](random)),))


def comes_back(number, folder, device):
    """Save a session, open it with an empty store and make it again."""
    random = Random(number)
    state = random_state(random, device)
    path = folder / random.choice(("session.zip", "session"))
    save_session(path, state)
    opened = open_session(path, Store())
    assert not opened.missing
    assert opened.state == state
    for shown, found in rerun(opened.state, device=device):
        assert found == shown.digest, (shown.name, shown.output.of.verb, shown.output.name)


@pytest.mark.daily
@pytest.mark.parametrize("number", range(SESSIONS))
def test_a_session_of_random_results_is_made_again_to_the_same_bits(number, tmp_path):
    comes_back(number, tmp_path, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("number", range(SESSIONS))
def test_it_is_on_a_gpu_too(number, tmp_path):
    comes_back(number, tmp_path, "cuda:0")


@pytest.mark.parametrize("verb", SAMPLES)
def test_the_record_and_the_script_of_a_result_make_it_again(verb, tmp_path, monkeypatch):
    operation = SAMPLES[verb](Random(0))
    assert [*from_graph(graph(operation)).values()][-1] == operation
    output = Output(operation, next(iter(operation.makes)))
    expected = digest(run(output, device="cpu"))
    monkeypatch.chdir(tmp_path)
    text = script(output, device="cpu", folder=tmp_path)
    STORE.clear()
    found = {}
    exec(text, found)
    assert digest(found["result"]) == expected
    page = html_of(found["result"])  # as notebooks show it
    assert "not shown" not in page
    assert "<td" in page


def test_digests_tell_results_apart():
    """Else those of sessions would prove nothing."""
    for verb in ("denoise", "dvh", "speckle", "track", "dissect"):
        found = {digest(run(SAMPLES[verb](Random(seed)).output(), device="cpu")) for seed in range(6)}
        assert len(found) > 1, verb
