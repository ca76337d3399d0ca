"""Modules of PyTorch handed to the Python package: exported so that they train. Skipped where PyTorch is not installed."""
import os
import sys
import unittest
import warnings
from tempfile import TemporaryDirectory

import rehearsal

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None


def setUpModule():
    warnings.simplefilter("ignore")


def image_network():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))


IMAGES = torch.zeros(4, 3, 8, 8)
# Conv 8·3·3·3 + 8, normalization 8 + 8, linear 10·288 + 10.
TRAINABLE = 224 + 16 + 2890


class Modules(unittest.TestCase):
    def test_normalization_and_dropout_stay_and_the_module_is_as_it_was(self):
        module = image_network().eval()
        module[3].train()
        found = rehearsal.inspect(module, inputs=IMAGES)
        self.assertEqual((found.operators["BatchNormSums"], found.operators["Dropout"], found.damage), (1, 1, []))
        self.assertEqual((found.trainable_parameters, found.inputs[0]["shape"]), (TRAINABLE, [4, 3, 8, 8]))
        self.assertEqual([part.training for part in module.modules()], [False, False, False, False, True, False, False])

    def test_batch_is_that_of_the_inputs_unless_it_is_given(self):
        for inputs, options, batch in ((IMAGES, {}, 4), (IMAGES[:1], {}, 1), (IMAGES[:1], {"batch": 64}, 64)):
            answer = rehearsal.estimate(image_network(), inputs=inputs, platform="dgx-a100", plan="dp=1", **options)
            self.assertEqual(answer.batch, batch)

    def test_the_same_file_gives_the_same_answer(self):
        module = image_network()
        with TemporaryDirectory() as folder:
            path = os.path.join(folder, "network.onnx")
            options = rehearsal.export(module, IMAGES, path)
            self.assertEqual(options, {"batch": 4})
            ours = rehearsal.estimate(module, inputs=IMAGES, platform="dgx-a100", plan="dp=2").to_dict()
            theirs = rehearsal.estimate(path, platform="dgx-a100", plan="dp=2", **options).to_dict()
        self.assertEqual({**ours, "model": ""}, {**theirs, "model": ""})

    def test_what_needs_no_gradient_is_frozen_beside_what_the_user_freezes(self):
        module = image_network()
        module[0].weight.requires_grad_(False)
        self.assertEqual(rehearsal.inspect(module, inputs=IMAGES).trainable_parameters, TRAINABLE - 216)
        self.assertEqual(rehearsal.inspect(module, inputs=IMAGES, freeze="5.bias").trainable_parameters, TRAINABLE - 216 - 10)

    def test_inputs_by_position_and_by_name(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(4, 2)

            def forward(self, first, second):
                return self.line(first + second)

        a, b = torch.zeros(3, 4), torch.zeros(3, 4)
        for inputs in ((a, b), {"first": a, "second": b}):
            self.assertEqual([i["name"] for i in rehearsal.inspect(Two(), inputs=inputs).inputs], ["first", "second"])
        with self.assertRaisesRegex(rehearsal.BadInput, "batches differ: first has 3, second has 2"):
            rehearsal.inspect(Two(), inputs=(a, b[:2]))
        with self.assertRaisesRegex(rehearsal.UsageError, "missing a required argument: 'second'"):
            rehearsal.inspect(Two(), inputs=a)
        with self.assertRaisesRegex(rehearsal.UsageError, "needs what its forward is called with"):
            rehearsal.inspect(Two())

    def test_what_pytorch_cannot_export_is_named(self):
        class Loop(nn.Module):
            def forward(self, x):
                return x * 2 if x.sum() > 0 else x

        with self.assertRaisesRegex(rehearsal.BadInput, "^Loop: PyTorch cannot export it: "):
            rehearsal.inspect(Loop(), inputs=IMAGES)

    def test_the_older_exporter_where_onnxscript_is_missing(self):
        find = sys.modules["importlib.util"].find_spec
        sys.modules["importlib.util"].find_spec = lambda name, *rest: None if name == "onnxscript" else find(name, *rest)
        try:
            with self.assertWarnsRegex(rehearsal.RehearsalWarning, "install onnxscript"):
                found = rehearsal.inspect(image_network(), inputs=IMAGES)
        finally:
            sys.modules["importlib.util"].find_spec = find
        self.assertEqual((found.operators["BatchNormSums"], found.trainable_parameters), (1, TRAINABLE))


class HuggingFace(unittest.TestCase):
    def test_a_decoder_is_exported_without_its_cache_and_attention_is_recognised(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100, n_positions=32, bos_token_id=1, eos_token_id=1)
        model = transformers.AutoModelForCausalLM.from_config(config)
        found = rehearsal.inspect(model, inputs={"input_ids": torch.zeros(4, 16, dtype=torch.long)})
        self.assertEqual(found["recognized"]["attention"], 2)
        self.assertEqual(found.trainable_parameters, sum(p.numel() for p in model.parameters()))
        self.assertTrue(model.config.use_cache)


if __name__ == "__main__":
    unittest.main()
