"""scripts/predict-with: the predictor that needs nothing against a hand calculation, and what is refused."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "scripts", "predict-with")
GPT = {"layers": 2, "hidden": 64, "heads": 4, "seq": 32, "vocab": 1000, "ffn": 256, "name": "GPT"}
A100 = {"gpu": "A100-SXM4-80GB", "count": 8, "peak_tflops_16bit": 312}


def run(predictor, text, *more):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return subprocess.run([sys.executable, SCRIPT, predictor, path, *more], capture_output=True, text=True)


def answers(*records, more=()):
    done = run("peak-share", "".join(json.dumps(record) + "\n" for record in records), *more)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def record(**changes):
    base = {"id": "r", "family": "f", "model": dict(GPT), "hardware": dict(A100),
            "plan": {"dp": 4, "tp": 2, "micro_batch": 2, "global_batch": 16, "precision": "bf16"}, "measured": {"iteration_time_s": 1}}
    for part, values in changes.items():
        base[part] = {**base[part], **values} if isinstance(values, dict) else values
    return base


class PeakShare(unittest.TestCase):
    # A block has 4 h² + 8 h² = 12·4096 weights, two of them 98,304; 16·32 = 512 tokens.
    # Forward: 2·512·98304 + 4·512·32·64·2 (attention) = 100,663,296 + 8,388,608; the words 6·512·1000·64 with their backward pass.
    FORWARD, WORDS = 100_663_296 + 8_388_608, 6 * 512 * 64_000

    def seconds(self, forwards, share=0.4):
        return (forwards * self.FORWARD + self.WORDS) / (8 * share * 312e12)

    def test_step(self):
        self.assertAlmostEqual(answers(record())[0]["predicted"]["iteration_time_s"] / self.seconds(3), 1)
        again = record(plan={"recompute": "full"})
        self.assertAlmostEqual(answers(again)[0]["predicted"]["iteration_time_s"] / self.seconds(4), 1)
        half = answers(record(), more=("--share", "0.2"))
        self.assertAlmostEqual(half[0]["predicted"]["iteration_time_s"] / self.seconds(3, 0.2), 1)

    def test_measured_keys_are_answered(self):
        rates = answers(record(measured={"iteration_time_s": None, "tokens_per_s_per_gpu": 5, "memory_gib": 4}))[0]["predicted"]
        self.assertEqual(list(rates), ["tokens_per_s_per_gpu"])
        self.assertAlmostEqual(rates["tokens_per_s_per_gpu"] * 8 * self.seconds(3) / 512, 1)

    def test_what_is_not_expressed_is_refused_by_its_key(self):
        cases = {"model.experts": record(model={"experts": 8}), "model.layers: is missing": record(model={"layers": "not stated"}),
                 "plan.cp": record(plan={"cp": 2}), "hardware.count: is 8, and dp x tp x pp is 4": record(plan={"dp": 2}),
                 "plan.precision: tf32": record(plan={"precision": "tf32"}), "hardware.peak_tflops_fp16: is missing": record(hardware={"peak_tflops_16bit": None}),
                 "hardware.peak_tflops_fp8: is missing": record(plan={"precision": "fp8"}), "model.ffn": record(model={"ffn": None}),
                 "model.vocab: is missing": record(model={"vocab": None}),
                 "does not divide 16 samples": record(plan={"micro_batch": 3}), "plan.recompute: block": record(plan={"recompute": "block"}),
                 "measured: nothing": record(measured={"iteration_time_s": None})}
        for words, case in cases.items():
            self.assertIn(words, answers(case)[0].get("refused", "answered"))

    def test_bad_input(self):
        done = run("peak-share", json.dumps(record()) + "\nno record\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("records.jsonl: line 2: is no record", done.stderr)
        done = run("peak-shares", "")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean peak-share?", done.stderr)
        self.assertIn("--checkout", run("calculon", "").stderr)
        self.assertIn("--checkout FOLDER", run("calculon", "", "--checkout", "nowhere").stderr)
        self.assertIn("--share must be above 0", run("peak-share", "", "--share", "0").stderr)
        self.assertIn("unrecognized arguments: --efficiency", run("peak-share", "", "--efficiency", "0.3").stderr)


if __name__ == "__main__":
    unittest.main()
