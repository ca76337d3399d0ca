"""The Python package against the command: the same options, answers, errors. Needs a `rehearse` ($REHEARSAL_COMMAND, or the wheel's)."""
import dataclasses
import doctest
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_type_hints

import rehearsal
from rehearsal import options
from rehearsal.command import program

RESNET = ["zoo:resnet50", "--batch", "2048", "--platform", "dgx-a100"]
DECODER = "zoo:gpt?layers=4&hidden=256&heads=4&seq=128&vocab=1000"
WALL_CLOCK = {"seconds", "plans_per_second", "wall_seconds"}


def command(*words, of=None):
    """What the command line prints."""
    return subprocess.run([of or program(), *words, "--format", "json"], capture_output=True, text=True, check=False)


def steady(document):
    """Without what is measured while the question is answered."""
    return {key: value for key, value in document.items() if key not in WALL_CLOCK}


def load_tests(_loader, tests, _pattern):
    for name in ("", ".api", ".results", ".options", ".models"):
        tests.addTests(doctest.DocTestSuite(importlib.import_module("rehearsal" + name)))
    return tests


def setUpModule():
    warnings.simplefilter("ignore", rehearsal.RehearsalWarning)


class Options(unittest.TestCase):
    # A command's options that are arguments of the function, with types of their own.
    ARGUMENTS = {"estimate": {"platform"}, "simulate": {"platform"}, "search": {"platform"}, "collective": {"platform"}, "jobs": {"platform"}, "explain": {"model"}}

    def test_every_option_of_a_command_is_a_keyword_and_no_other(self):
        for name in ("estimate", "search", "simulate", "explain", "inspect", "validate", "report", "collective", "jobs"):
            with self.subTest(name):
                said = subprocess.run([program(), name, "--help"], capture_output=True, text=True, check=True).stdout
                listed = {found.replace("-", "_") for found in re.findall(r"^  (?:-\w,)?--([a-z-]+)", said, re.MULTILINE)}
                listed = {"help" if found == "h" else found for found in listed} - options.RESERVED
                kind = getattr(options, name.capitalize() + "Options")
                self.assertEqual(set(get_type_hints(kind)) | self.ARGUMENTS.get(name, set()), listed)

    def test_flags_are_the_options_without_a_value(self):
        flags = set()
        for name in ("estimate", "search", "simulate", "explain", "inspect", "validate", "report", "collective", "jobs"):
            said = subprocess.run([program(), name, "--help"], capture_output=True, text=True, check=True).stdout
            flags |= {f.replace("-", "_") for f in re.findall(r"^  --([a-z-]+)(?: Excludes: \S+)?(?:  |$)", said, re.MULTILINE)} - options.RESERVED
        self.assertEqual(flags, options.FLAGS)

    def test_values_become_words(self):
        words = options.words_of({"betas": (0.9, 0.95), "dropout": False, "bind": {"a": 1, "b": 2}, "lr": 1e-5, "tensors": False,
                                  "vary": {"dp": [8, 16]}, "machine": Path("m.json"), "plan": None})
        self.assertEqual(words, ["--betas=0.9,0.95", "--dropout=off", "--bind=a=1", "--bind=b=2", "--lr=1e-05", "--vary=dp=8,16",
                                 "--machine=m.json"])


class Answers(unittest.TestCase):
    def same(self, result, *words):
        said = command(*words)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(steady(result.to_dict()), steady(json.loads(said.stdout)))
        # What the fields hold is what the document holds.
        for f in dataclasses.fields(result):
            value = getattr(result, f.name)
            if isinstance(value, rehearsal.Quantity):
                self.assertEqual(value.value, result[f.name]["value"])

    def test_estimate(self):
        self.same(rehearsal.estimate("zoo:resnet50", platform="dgx-a100", batch=2048), "estimate", *RESNET)
        self.same(rehearsal.estimate(DECODER, platform="dgx-h100", batch=64, dtype="bf16", optimizer="adamw", plan={"dp": 8, "zero": 1},
                                     weight_decay=0.1, betas=(0.9, 0.95), framework="megatron-core", steps=1000, price=2.5, devices=8),
                  "estimate", DECODER, "--platform", "dgx-h100", "--batch", "64", "--dtype", "bf16", "--optimizer", "adamw", "--plan",
                  "dp=8,zero=1", "--weight-decay", "0.1", "--betas", "0.9,0.95", "--framework", "megatron-core", "--steps", "1000",
                  "--price", "2.5", "--devices", "8")

    def test_variations(self):
        varied = rehearsal.estimate("zoo:resnet50", platform="dgx-a100", batch=2048, vary={"micro_batch": [1, 2], "link.bandwidth": "x2"},
                                    dataset={"samples": "1M", "bytes": "110kB"})
        self.same(varied, "estimate", *RESNET, "--vary", "micro_batch=1,2", "--vary", "link.bandwidth=x2", "--dataset",
                  "samples=1M,bytes=110kB")
        self.assertEqual([row["value"] for row in varied.rows()], ["1", "2", "x2"])
        with self.assertRaisesRegex(rehearsal.Refusal, "data parallelism over 8 devices") as refused, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rehearsal.estimate("zoo:llama2-70b?seq=4096", platform="dgx-a100", devices=8, batch=64, dtype="bf16", optimizer="adamw",
                               vary={"zero": [0, 3]})
        self.assertEqual([("refused" in row) for row in refused.exception.document["vary"]], [False, False])

    def test_batches_on_the_way_to_a_target(self):
        where = ["zoo:resnet50", "--platform", "dgx-a100", "--batch", "2048"]
        found = rehearsal.estimate("zoo:resnet50", platform="dgx-a100", batch=2048, plan="dp=32", reached="1600:500,6400:200",
                                   batches=[1024, 2048])
        self.same(found, "estimate", *where, "--plan", "dp=32", "--reached", "1600:500,6400:200", "--batches", "1024,2048")
        self.assertIsInstance(found, rehearsal.TargetAnswer)
        self.assertEqual([row["batch"] for row in found.rows()], [1024, 2048])

    def test_search_and_its_plan_file(self):
        with TemporaryDirectory() as folder:
            plan = os.path.join(folder, "plan.json")
            found = rehearsal.search("zoo:resnet50", platform="dgx-a100", batch=2048, budget="300plans", confirm=0, top=2,
                                     limit={"memory": "60GB"}, output=plan)
            self.same(found, "search", *RESNET, "--budget", "300plans", "--confirm", "0", "--top", "2", "--limit", "memory=60GB",
                      "--output", plan)
            again = rehearsal.estimate("zoo:resnet50", platform="dgx-a100", batch=2048, plan=Path(plan))
        self.assertEqual(found.best.plan, again.plan)
        self.assertEqual([row["plan"] for row in found.rows()], [p.plan for p in found.plans])

    def test_simulate_explain_inspect_collective_validate(self):
        small = ["--platform", "dgx-a100", "--batch", "64"]
        self.same(rehearsal.simulate("zoo:resnet18", platform="dgx-a100", plan="dp=8", batch=64, fidelity="closed"), "simulate",
                  "zoo:resnet18", *small, "--plan", "dp=8", "--fidelity", "closed")
        explained = rehearsal.explain({"dp": 8}, model="zoo:resnet18", platform="dgx-a100", batch=64)
        self.same(explained, "explain", "dp=8", "--model", "zoo:resnet18", *small)
        self.assertEqual(explained.rows()[0]["name"], explained.stages[0]["layers"][0]["name"])
        self.same(rehearsal.inspect("zoo:resnet18", batch=4, dims=True), "inspect", "zoo:resnet18", "--batch", "4", "--dims")
        self.same(rehearsal.collective(platform="dgx-a100", sizes=["1MB", "2MB"]), "collective", "--platform", "dgx-a100", "--sizes",
                  "1MB,2MB")
        *records, last = map(json.loads, command("validate", "--family", "collective").stdout.splitlines())
        validated = rehearsal.validate(family="collective")
        self.assertEqual((validated.records, validated.all), (records, last["summary"]["all"]))
        with TemporaryDirectory() as folder:
            path = os.path.join(folder, "theirs.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(map(json.dumps, records)))
            compared = rehearsal.validate(family="collective", against=path)
        self.assertEqual((compared.records_that_both_answered, compared.of_these[1]["of"]), (len(records), "theirs"))

    def test_what_is_no_json_is_text(self):
        said = command("explain", "dp=8", "--model", "zoo:resnet18", "--platform", "dgx-a100", "--framework", "rehearse", "--batch", "64",
                       "--program")
        explained = rehearsal.explain("dp=8", model="zoo:resnet18", platform="dgx-a100", framework="rehearse", batch=64, program=True)
        self.assertIn("Conv conv1", explained.text)
        self.assertEqual(explained.text, said.stdout)

    def test_two_threads_ask_at_a_time(self):
        with ThreadPoolExecutor(2) as threads:
            plans = list(threads.map(lambda batch: rehearsal.estimate("zoo:resnet50", platform="dgx-a100", batch=batch).batch, (64, 128)))
        self.assertEqual(plans, [64, 128])

    @unittest.skipUnless(os.environ.get("REHEARSAL_COMPARED"), "REHEARSAL_COMPARED names no other program")
    def test_another_program_says_the_same(self):
        for words in (["estimate", *RESNET], ["estimate", DECODER, "--platform", "dgx-h100", "--batch", "64", "--dtype", "bf16"],
                      ["search", *RESNET, "--budget", "300plans", "--confirm", "0"], ["validate", "--family", "transformer-3d"]):
            with self.subTest(words):
                ours, theirs = (command(*words, of=of).stdout for of in (None, os.environ["REHEARSAL_COMPARED"]))
                if words[0] == "search":
                    ours, theirs = (steady(json.loads(text)) for text in (ours, theirs))
                self.assertEqual(ours, theirs)


class Tables(unittest.TestCase):
    def test_rows_are_what_pandas_takes(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        found = rehearsal.search("zoo:resnet50", platform="dgx-a100", batch=2048, budget="300plans", confirm=0, top=3)
        frame = pandas.DataFrame(found.rows())
        self.assertEqual(list(frame["plan"]), [p.plan for p in found.plans])
        self.assertEqual(list(frame["step_seconds_low"]), [p.step_seconds.low for p in found.plans])
        self.assertEqual(list(frame["memory_bytes_capacity"]), [p["memory_bytes"]["capacity"] for p in found.plans])


class Failures(unittest.TestCase):
    def fails(self, kind, *words, asks):
        """Text and status are the command's."""
        said = command(*words)
        with self.assertRaises(kind) as raised:
            asks()
        self.assertEqual(raised.exception.status, said.returncode)
        self.assertIn(str(raised.exception), said.stderr)
        return raised.exception

    def test_bad_input_names_the_nearest(self):
        error = self.fails(rehearsal.BadInput, "estimate", "zoo:resnet50", "--platform", "dgx-a10", "--batch", "8",
                           asks=lambda: rehearsal.estimate("zoo:resnet50", platform="dgx-a10", batch=8))
        self.assertIn("dgx-a100", str(error))
        self.assertIsInstance(error, ValueError)

    def test_an_unknown_keyword_names_the_nearest(self):
        error = self.fails(rehearsal.UsageError, "estimate", *RESNET, "--optimiser=adam",
                           asks=lambda: rehearsal.estimate("zoo:resnet50", batch=2048, platform="dgx-a100", optimiser="adam"))
        self.assertIn("--optimizer", str(error))
        self.assertIsInstance(error, TypeError)
        with self.assertRaisesRegex(rehearsal.UsageError, "format is no keyword"):
            rehearsal.estimate("zoo:resnet50", platform="dgx-a100", format="text")

    def test_a_refusal_keeps_the_answer(self):
        error = self.fails(rehearsal.Refusal, "estimate", "zoo:llama3.1-405b", "--platform", "dgx-a100", "--batch", "64", "--plan", "dp=64",
                           asks=lambda: rehearsal.estimate("zoo:llama3.1-405b", platform="dgx-a100", batch=64, plan="dp=64"))
        self.assertGreater(error.document["memory_bytes"]["value"], error.document["memory_bytes"]["capacity"])

    def test_warnings_are_warnings(self):
        with self.assertWarnsRegex(rehearsal.RehearsalWarning, "statistics of batch normalization"):
            answer = rehearsal.estimate("zoo:resnet18", platform="dgx-a100", batch=64, plan="dp=8")
        self.assertEqual(len(answer.warnings), 1)

    def test_what_is_no_model(self):
        for model, inputs, text in ((3, None, "int is neither"), ("zoo:resnet18", 3, "inputs: are for")):
            with self.assertRaisesRegex(rehearsal.UsageError, text):
                rehearsal.estimate(model, platform="dgx-a100", inputs=inputs)

    def test_no_program(self):
        script = "import rehearsal\ntry: rehearsal.validate()\nexcept rehearsal.EnvironmentFailure as e: print(e)"
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                              env={**os.environ, "REHEARSAL_COMMAND": "/nowhere/rehearse"}).stdout
        self.assertIn("/nowhere/rehearse cannot be started: No such file", said)

    def test_interrupt_ends_a_search_with_the_best_so_far(self):
        script = ("import rehearsal\n"
                  "try: rehearsal.search('zoo:llama3.1-405b', platform='dgx-a100', nodes=4096, batch=65536, dtype='bf16', budget='60s')\n"
                  "except rehearsal.Interrupted as stopped: print('best', stopped.result.best.plan)")
        began = time.monotonic()
        process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, text=True)
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=40)[0]
        self.assertRegex(said, r"^best \w+=\d+")
        self.assertLess(time.monotonic() - began, 40)
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
