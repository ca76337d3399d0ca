"""llm-analysis (PyPI, Cheng Li): latency from operations at a share of the peak, memory from tensors."""
import contextlib
import io
import logging

from predictors.records import Refused, Transformer, recompute_of

NEEDS = "the Python package llm-analysis (0.2.2)"


#: Records rarely say it, and little follows from it: that of an A100 of 80 GB in llm-analysis' own list.
USUAL_MEMORY_TBPS = 2.039


def add_options(parser):
    parser.add_argument("--efficiency", type=float, default=0.5,
                        help="share of the peak (default 0.5, what its constant.py says of Megatron-LM)")


class Predictor:
    def __init__(self, options):
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                from llm_analysis import analysis, config
        except ImportError:
            raise SystemExit(f"predict-with: llm-analysis needs {NEEDS}: pip install llm-analysis") from None
        if not 0 < options.efficiency <= 1:
            raise SystemExit("predict-with: --efficiency must be above 0 and at most 1")
        logging.disable(logging.CRITICAL)
        self.analysis, self.config, self.efficiency = analysis, config, options.efficiency

    def predict(self, record):
        job = Transformer(record)
        if job.ffn % job.hidden != 0:
            raise Refused("model.ffn: llm-analysis wants a multiple of model.hidden")
        model = self.config.ModelConfig(name=record.id, num_layers=job.layers, n_head=job.heads, hidden_dim=job.hidden, vocab_size=job.vocabulary,
                                        max_seq_len=job.seq, num_key_value_heads=job.kv_heads, ffn_embed_dim=job.ffn,
                                        num_key_value_groups=job.heads // job.kv_heads)
        gpu = self.config.GPUConfig(name="record", mem_per_GPU_in_GB=record.need("hardware", "mem_GiB"),
                                    hbm_bandwidth_in_GB_per_sec=1000 * (record.number("hardware", "mem_bw_TBps") or USUAL_MEMORY_TBPS),
                                    intra_node_bandwidth_in_GB_per_sec=record.need("hardware", "intra_bw_GBps") if job.tp > 1 else 1,
                                    intra_node_min_message_latency=8e-6, peak_fp16_TFLOPS=record.peak() / 1e12)
        said = self.answer(record, job, model, gpu)
        predicted = job.predicted(record, said["latency_per_iter"])
        if record.measures("memory_gib"):
            predicted["memory_gib"] = (said["weight_memory_per_gpu"] + said["optimizer_state_memory_per_gpu"] +
                                       said["gradient_memory_per_gpu"] + said["activation_memory_per_gpu"]) / 2**30
        if not predicted:
            raise Refused("measured: nothing that follows from time and memory of a step")
        return predicted

    def answer(self, record, job, model, gpu):
        kinds, zero = self.analysis.ActivationRecomputation, int(record.number("plan", "zero") or 0)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                asked = self.analysis.LLMAnalysis(model, gpu, self.config.DtypeConfig(),
                                                  self.config.ParallelismConfig(tp_size=job.tp, pp_size=job.pp, dp_size=job.dp),
                                                  flops_efficiency=self.efficiency)
                return asked.training(batch_size_per_gpu=job.micro_batch, global_batch_size=job.batch, seq_len=job.seq,
                                      gradient_accumulation_steps=job.batch // (job.micro_batch * job.dp),
                                      activation_recomputation=kinds[recompute_of(record).upper()], ds_zero=self.analysis.DSZeRO(zero),
                                      mlp_gated_linear_units=job.gated, flash_attn="flash" in record.text("model", "attn"))
            except (AssertionError, KeyError, ValueError, TypeError, ZeroDivisionError) as problem:
                raise Refused(f"llm-analysis: {problem or type(problem).__name__}") from None
