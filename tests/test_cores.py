"""Blocks cover everything once, threads keep the order, and a program is compiled by one thread only."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from rndlib import MLP, DeepEnsemble, GradientFlow, cores
from rndlib.cores import parallel, split
from rndlib.training.backends import load


@given(count=st.integers(1, 600), size=st.integers(1, 700))
def test_blocks_are_of_one_shape(count, size):
    blocks = split(count, size)
    assert len({len(block) for block in blocks}) == 1
    assert len(blocks[0]) <= size
    flat = [i for block in blocks for i in block]
    assert flat[:count] == list(range(count))
    # What is repeated is little: less than one index a block.
    assert flat[count:] == [count - 1] * (len(flat) - count)
    assert len(flat) - count < len(blocks)


def test_a_block_that_repeats_a_body_returns_it_once():
    net = MLP(2, width=2048)  # three bodies a block at these sizes, five in two blocks: one is repeated
    X = np.random.default_rng(0).normal(size=(10, 2))
    model = DeepEnsemble(net, 5, solver=GradientFlow(time=0.0)).fit(X, X[:, 0])
    assert [block.bodies for block in model._fitted._trained.blocks] == [[0, 1, 2], [3, 4, 4]]
    assert model.functions(X[:1]).shape == (5, 1)


def test_order_and_nesting():
    def inner(i):
        return threading.get_ident(), i

    def outer(i):
        found = parallel(inner, range(3))
        assert [i for _, i in found] == [0, 1, 2]
        return {ident for ident, _ in found} == {threading.get_ident()}

    assert parallel(outer, range(8)) == [True] * 8


@pytest.mark.parametrize("threads", [1, 3])
def test_as_many_threads_as_the_environment_says(monkeypatch, threads):
    monkeypatch.setenv(cores.COUNT, str(threads))
    together = threading.Barrier(threads, timeout=60)  # broken, which raises, unless so many work at once
    found = parallel(lambda _: together.wait() >= 0 and threading.get_ident(), range(2 * threads))
    assert len(set(found)) == threads


@pytest.mark.parametrize("said", ["", "default", "0", "-1"])
def test_as_many_threads_as_cores_where_the_environment_names_no_number(monkeypatch, said):
    monkeypatch.setenv(cores.COUNT, said)
    assert cores.count() == len(os.sched_getaffinity(0))


def test_the_first_error_stops_what_has_not_begun():
    begun = []

    def work(i):
        begun.append(i)
        if i == 0:
            raise RuntimeError("first")
        time.sleep(0.01)

    with pytest.raises(RuntimeError, match="first"):
        parallel(work, range(1000))
    assert len(begun) < 1000


def test_two_threads_compile_a_program_once():
    traced, found, lib, barrier = [], [], load("jax"), threading.Barrier(4)

    def double(lib, net, shared, own):
        traced.append(net.width)
        return 2 * own

    def call(width=7, size=1):
        return lib.arrays(lib.each(double, MLP(1, width=width), (), np.ones((size, 1), np.float32)))

    def together():
        barrier.wait()
        found.append(call().item())

    threads = [threading.Thread(target=together) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, traced) == ([2.0] * 4, [7])
    call(width=8)
    call(size=3)
    assert traced == [7, 8, 7]


def test_libraries_have_one_thread_each_meanwhile_and_theirs_again_afterwards():
    import torch

    def threads(_=None):
        blas = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
        return torch.get_num_threads(), blas

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with threadpool_limits(limits=2, user_api="blas"):
            assert threads() == (2, {2})
            assert parallel(threads, [1]) == [(2, {2})]  # one item alone leaves them their threads
            assert parallel(threads, range(3)) == [(1, {1})] * 3
            with pytest.raises(RuntimeError, match="work"), cores.one_thread_each():
                raise RuntimeError("work")
            assert threads() == (2, {2})
            with ThreadPoolExecutor(1) as user:  # the numbers are the process's
                assert [blas for _, blas in user.submit(parallel, threads, range(3)).result()] == [{2}] * 3
    finally:
        torch.set_num_threads(before)
