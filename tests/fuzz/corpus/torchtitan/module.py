# For torchtitan 0.3.0: torchrun ... -m torchtitan.train --module NAME_OF_THIS_FILE --config rehearsed
from torchtitan.components.optimizer import ParamGroupConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.models.llama3.config_registry import llama3_8b


def rehearsed():
    config = llama3_8b()
    config.training.seq_len = 8192
    config.parallelism.data_parallel_replicate_degree = 1
    config.parallelism.data_parallel_shard_degree = 4
    config.parallelism.tensor_parallel_degree = 2
    config.parallelism.pipeline_parallel_degree = 1
    config.parallelism.context_parallel_degree = 1
    config.training.local_batch_size = 2
    config.training.global_batch_size = 64
    config.parallelism.fsdp_reshard_after_forward = "always"
    config.activation_checkpoint = FullAC.Config()
    config.parallelism.enable_sequence_parallel = False
    config.training.dtype = "float32"
    config.training.mixed_precision_param = "bfloat16"
    config.optimizer.param_groups = [ParamGroupConfig(pattern=".*", optimizer_name="AdamW", optimizer_kwargs={"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-08, "weight_decay": 0.01})]
    config.training.max_norm = float("inf")
    return config
