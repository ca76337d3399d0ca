"""Calculon (github.com/calculon-ai/calculon; the package of that name on PyPI is another program): time and memory of transformers."""
import json
import logging
import os
import sys

from predictors.records import Refused, Transformer, recompute_of

NEEDS = "a checkout of github.com/calculon-ai/calculon: --checkout FOLDER"
#: Its own descriptions of systems, by a word of the record's device and GiB.
SYSTEMS = {("a100", 80): "a100_80g.json", ("h100", 80): "h100_80g_nvl8.json"}
NODE = 8


def add_options(parser):
    parser.add_argument("--checkout", required=True, help="folder of a checkout")


class Predictor:
    def __init__(self, options):
        if not os.path.isdir(os.path.join(options.checkout, "calculon")):
            raise SystemExit(f"predict-with: calculon needs {NEEDS}")
        sys.path.insert(0, os.path.abspath(options.checkout))
        try:
            from calculon import System
            from calculon.llm import Llm
        except ImportError as missing:
            raise SystemExit(f"predict-with: Calculon needs the Python package {missing.name}") from None
        self.system_of, self.llm, self.folder, self.log = System, Llm, options.checkout, logging.getLogger("calculon")

    def system(self, record):
        device, memory = record.text("hardware", "gpu"), int(record.need("hardware", "mem_GiB"))
        described = [file for (word, size), file in SYSTEMS.items() if word in device and size == memory]
        if not described:
            raise Refused(f"hardware.gpu: Calculon's systems are A100 and H100 of 80 GiB, this is {device or 'a device without a name'} of {memory} GiB")
        with open(os.path.join(self.folder, "systems", described[0]), encoding="utf-8") as file:
            system = json.load(file)
        if bandwidth := record.number("hardware", "inter_bw_GBps_per_gpu"):
            system["networks"][1]["bandwidth"] = bandwidth
        return self.system_of(system)

    def execution(self, record, job):
        recompute = {"none": "none", "selective": "attn_only", "full": "full"}[recompute_of(record)]
        sequence = job.tp > 1 and (record.number("plan", "seq_parallel") or record.text("plan", "seq_parallel") in ("true", "yes", "on"))
        inside = lambda ranks: 0 if ranks <= NODE else 1
        return {"num_procs": job.devices, "tensor_par": job.tp, "pipeline_par": job.pp, "data_par": job.dp,
                "tensor_par_net": inside(job.tp), "data_par_net": inside(job.tp * job.dp), "pipeline_par_net": inside(job.devices),
                "batch_size": job.batch, "microbatch_size": job.micro_batch, "datatype": "float16",
                "fused_activation": False, "attention_type": "multihead" if job.kv_heads == job.heads else "multiquery",
                "activation_recompute": recompute, "pipeline_interleaving": int(record.number("plan", "interleave") or 1),
                "optimizer_sharding": int(record.number("plan", "zero") or 0) >= 1, "tensor_par_comm_type": "rs_ag" if sequence else "ar",
                "tensor_par_overlap": "none", "seq_par_ag_redo": bool(sequence), "data_par_overlap": False, "weight_offload": False,
                "activations_offload": False, "optimizer_offload": False, "training": True}

    def predict(self, record):
        if "fp8" in record.text("plan", "precision"):
            raise Refused("plan.precision: Calculon's systems have no rate for fp8")
        record.peak()  # refuses other precisions
        job = Transformer(record)
        if job.gated or job.kv_heads not in (1, job.heads):
            raise Refused("model: Calculon's blocks have two products in their MLP, and heads that share all keys and values or none")
        if (record.number("plan", "zero") or 0) > 1:
            raise Refused("plan.zero: Calculon shards the optimizer alone")
        if record.text("plan", "seq_parallel") == "" and recompute_of(record) == "selective" and job.tp > 1:
            raise Refused("plan.seq_parallel: is missing")
        application = {"name": record.id, "hidden": job.hidden, "feedforward": job.ffn, "seq_size": job.seq, "attn_heads": job.heads,
                       "attn_size": job.hidden // job.heads, "num_blocks": job.layers}
        try:
            model, system = self.llm(self.llm.Application(application), self.log), self.system(record)
            model.compile(system, self.llm.Execution.from_json(self.execution(record, job)))
            model.run(system)
        except (self.llm.Error, AssertionError, KeyError) as problem:
            raise Refused(f"Calculon: {problem or 'an assertion of its own does not hold'}") from None
        predicted = job.predicted(record, model.get_total_time())
        if record.measures("memory_gib"):
            predicted["memory_gib"] = model.get_mem_tier1_cap_req() / 2**30
        if not predicted:
            raise Refused("measured: nothing that follows from time and memory of a step")
        return predicted
