"""Records of measured training runs as predictors ask them: numbers that are there, or a refusal that names the key."""
import json


class Refused(Exception):
    """Why a predictor has no answer to a record."""


SIXTEEN_BITS = ("bf16", "fp16", "f16", "half", "mixed", "amp")


class Record:
    def __init__(self, line):
        self.id, self.family = line["id"], line.get("family", "")
        self.parts = {name: line.get(name) or {} for name in ("model", "hardware", "plan", "measured")}

    def number(self, part, key, otherwise=None):
        """A text such as "not stated" is no number."""
        value = self.parts[part].get(key)
        if isinstance(value, bool) or value is None:
            return float(value) if value is not None else otherwise
        try:
            return float(value)
        except (TypeError, ValueError):
            return otherwise

    def need(self, part, key):
        value = self.number(part, key)
        if value is None or value <= 0:
            raise Refused(f"{part}.{key}: is missing")
        return value

    def text(self, part, key):
        return str(self.parts[part].get(key) or "").lower()

    def measures(self, key):
        return (self.number("measured", key) or 0) > 0

    def peak(self):
        """Of the record's precision, in FLOP/s, as the record says it."""
        precision = self.text("plan", "precision")
        if "fp8" in precision:
            return 1e12 * self.need("hardware", "peak_tflops_fp8")
        if any(word in precision for word in ("fp4", "int8", "nf4")):
            raise Refused(f"plan.precision: {precision} is not expressed by this predictor")
        if precision and not any(word in precision for word in SIXTEEN_BITS):
            raise Refused(f"plan.precision: {precision} is not 16 bits")
        key = "peak_tflops_16bit" if self.number("hardware", "peak_tflops_16bit") else "peak_tflops_fp16"
        return 1e12 * self.need("hardware", key)


class Transformer:
    """Shape and degrees of a dense decoder or encoder, whole steps of which are measured. Refuses every other record."""

    def __init__(self, record):
        if "layer" in record.family:
            raise Refused("family: a single block is measured, and no step")
        if record.parts["model"].get("bytes") is not None or record.text("plan", "collective"):
            raise Refused("plan.collective: no training step is measured")
        for part, key in (("model", "experts"), ("model", "image"), ("plan", "lora"), ("plan", "lora_rank"), ("model", "enc_layers")):
            if record.parts[part].get(key):
                raise Refused(f"{part}.{key}: only dense decoders and encoders that are trained whole are expressed")
        for key in ("cp", "ep", "spatial_parallel"):
            if (record.number("plan", key) or 1) > 1:
                raise Refused(f"plan.{key}: is not expressed by this predictor")
        self.layers, self.hidden, self.heads, self.seq = (int(record.need("model", key)) for key in ("layers", "hidden", "heads", "seq"))
        self.vocabulary = int(record.need("model", "vocab"))
        self.gated = "llama" in record.text("model", "family") + record.text("model", "name")
        self.ffn = int(record.need("model", "ffn"))
        self.kv_heads = int(record.number("model", "kv_heads") or self.heads)
        self.devices = int(record.need("hardware", "count"))
        self.tp, self.pp = (int(record.number("plan", key) or 1) for key in ("tp", "pp"))
        self.dp = int(record.number("plan", "dp") or self.devices // (self.tp * self.pp))
        if self.dp * self.tp * self.pp != self.devices:
            raise Refused(f"hardware.count: is {self.devices}, and dp x tp x pp is {self.dp * self.tp * self.pp}")
        self.micro_batch = int(record.number("plan", "micro_batch") or record.number("plan", "local_batch") or 0)
        self.batch = int(record.number("plan", "global_batch") or self.micro_batch * self.dp * int(record.number("plan", "grad_accum") or 1))
        if self.batch <= 0:
            raise Refused("plan.global_batch: is missing")
        if self.micro_batch <= 0:
            self.micro_batch = max(1, self.batch // self.dp) if self.pp == 1 else 0
        if self.micro_batch <= 0:
            raise Refused("plan.micro_batch: is missing")
        if self.batch % (self.micro_batch * self.dp) != 0:
            raise Refused(f"plan.micro_batch: {self.micro_batch} on {self.dp} replicas does not divide {self.batch} samples")

    def parameters(self):
        """Of the blocks, and of the embedding: Narayanan et al. 2021, equation 2, with the record's own width and heads."""
        attention = 2 * self.hidden * self.hidden * (1 + self.kv_heads / self.heads)
        block = attention + (3 if self.gated else 2) * self.hidden * self.ffn
        return self.layers * block, self.vocabulary * self.hidden

    def flops(self, again):
        """Of a step. `again`: the share of the blocks' forward pass that is computed again."""
        blocks, words = self.parameters()
        tokens = self.batch * self.seq
        forward = 2 * tokens * blocks + 4 * tokens * self.seq * self.hidden * self.layers
        return (3 + again) * forward + 6 * tokens * words

    def predicted(self, record, seconds):
        """The measured quantities that follow from the seconds of a step."""
        rates = {"samples_per_s": self.batch / seconds, "tokens_per_s": self.batch * self.seq / seconds}
        every = {"iteration_time_s": seconds, **rates, **{f"{key}_per_gpu": rate / self.devices for key, rate in rates.items()}}
        return {key: value for key, value in every.items() if record.measures(key)}


def recompute_of(record):
    """none, selective or full."""
    said = record.text("plan", "recompute")
    if said in ("", "none", "false", "no", "off", "0"):
        return "none"
    if "selective" in said:
        return "selective"
    if said in ("full", "true", "yes", "on", "1"):
        return "full"
    raise Refused(f"plan.recompute: {said} is not expressed by this predictor")


def read(path):
    """Yields records; raises ValueError naming file and line."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = Record(json.loads(line))
            except (ValueError, KeyError, AttributeError, TypeError) as problem:
                raise ValueError(f"{path}: line {number}: is no record: {problem}") from None
            yield record
