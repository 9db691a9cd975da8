"""The PyTorch backend on CUDA's current device."""

from functools import partial

from torch import cuda

from rndlib.training.backends import torch as backend
from rndlib.training.backends.sizes import block_size as block_size

if not cuda.is_available():
    raise ImportError("backend 'torch:cuda' finds no CUDA device that this PyTorch can use: give backend='torch'")

functions = partial(backend.functions, device="cuda")
tangents = partial(backend.tangents, device="cuda")
tangent_kernels = partial(backend.tangent_kernels, device="cuda")
train = partial(backend.train, device="cuda")
train_in_batches = partial(backend.train_in_batches, device="cuda")
