// Sizes of published models: their configuration files (config.json beside the weights), and the papers they cite.

#include <vector>

#include "graph/zoo/zoo.hpp"

namespace rehearsal::graph::zoo {
namespace {

// GPT-3: Brown et al., "Language Models are Few-Shot Learners" (2020), table 2.1.
constexpr ZooPreset kFirstTransformers[] = {
    {"gpt2", "gpt", ""},
    {"gpt2-medium", "gpt2", "layers=24&hidden=1024&heads=16"},
    {"gpt2-large", "gpt2", "layers=36&hidden=1280&heads=20"},
    {"gpt2-xl", "gpt2", "layers=48&hidden=1600&heads=25"},
    {"gpt3-6.7b", "gpt2", "layers=32&hidden=4096&heads=32&seq=2048"},
    {"gpt3-13b", "gpt3-6.7b", "layers=40&hidden=5120&heads=40"},
    {"gpt3-175b", "gpt3-6.7b", "layers=96&hidden=12288&heads=96"},
    {"bert-base", "bert", ""},
    {"bert-large", "bert", "layers=24&hidden=1024&heads=16"},
    {"t5-base", "t5", ""},
    {"t5-small", "t5", "enc_layers=6&dec_layers=6&hidden=512&heads=8&ffn=2048"},
    {"t5-large", "t5", "enc_layers=24&dec_layers=24&hidden=1024&heads=16&ffn=4096"},
    {"vit_b_16", "vit", ""},
    {"vit_l_16", "vit", "layers=24&hidden=1024&heads=16"},
    {"vit_h_14", "vit", "patch=14&layers=32&hidden=1280&heads=16"},
};

constexpr ZooPreset kPresetsLlama[] = {
    {"llama2-7b", "llama", "seq=4096"},
    {"llama2-13b", "llama2-7b", "layers=40&hidden=5120&heads=40&ffn=13824"},
    {"llama2-70b", "llama2-7b", "layers=80&hidden=8192&heads=64&kv_heads=8&ffn=28672"},
    {"llama3-8b", "llama", "kv_heads=8&ffn=14336&vocab=128256&theta=500000&seq=8192"},
    {"llama3-70b", "llama3-8b", "layers=80&hidden=8192&heads=64&ffn=28672"},
    {"llama3.1-8b", "llama3-8b", ""},
    {"llama3.1-70b", "llama3-70b", ""},
    {"llama3.3-70b", "llama3-70b", ""},
    {"llama3.1-405b", "llama3-8b", "layers=126&hidden=16384&heads=128&ffn=53248"},
    {"llama3.2-1b", "llama3-8b", "layers=16&hidden=2048&heads=32&ffn=8192&tied=1"},
    {"llama3.2-3b", "llama3-8b", "layers=28&hidden=3072&heads=24&ffn=8192&tied=1"},
    {"mistral-7b", "llama", "kv_heads=8&ffn=14336&window=4096&seq=4096"},
    {"mistral-nemo", "llama", "layers=40&hidden=5120&kv_heads=8&head_dim=128&ffn=14336&vocab=131072&theta=1000000&seq=4096"},
};

constexpr ZooPreset kQwen[] = {
    {"qwen2.5-7b", "llama", "layers=28&hidden=3584&heads=28&kv_heads=4&ffn=18944&vocab=152064&theta=1000000&qkv_bias=1&seq=4096"},
    {"qwen2.5-14b", "qwen2.5-7b", "layers=48&hidden=5120&heads=40&kv_heads=8&ffn=13824"},
    {"qwen2.5-32b", "qwen2.5-14b", "layers=64&ffn=27648"},
    {"qwen2.5-72b", "qwen2.5-14b", "layers=80&hidden=8192&heads=64&ffn=29568"},
    {"mimo-7b", "llama", "layers=36&kv_heads=8&head_dim=128&vocab=151680&theta=640000&qkv_bias=1&seq=4096"},
    {"qwen3-8b", "llama", "layers=36&kv_heads=8&head_dim=128&ffn=12288&vocab=151936&theta=1000000&qk_norm=1&seq=4096"},
    {"qwen3-0.6b", "qwen3-8b", "layers=28&hidden=1024&heads=16&ffn=3072&tied=1"},
    {"qwen3-1.7b", "qwen3-8b", "layers=28&hidden=2048&heads=16&ffn=6144&tied=1"},
    {"qwen3-4b", "qwen3-8b", "hidden=2560&ffn=9728&tied=1"},
    {"qwen3-14b", "qwen3-8b", "layers=40&hidden=5120&heads=40&ffn=17408"},
    {"qwen3-32b", "qwen3-8b", "layers=64&hidden=5120&heads=64&ffn=25600"},
    {"qwen3-235b-a22b", "moe",
     "layers=94&heads=64&kv_heads=4&head_dim=128&qk_norm=1&ffn=12288&moe_ffn=1536&experts=128&top_k=8&vocab=151936&seq=4096"},
    {"qwen3-30b-a3b", "qwen3-235b-a22b", "layers=48&hidden=2048&heads=32&ffn=6144&moe_ffn=768"},
    {"qwen3-next-80b-a3b", "moe",
     "layers=48&hidden=2048&heads=16&kv_heads=2&head_dim=256&rotary=25&theta=10000000&qk_norm=1&attn_gate=1&full_every=4&ffn=5120&moe_ffn="
     "512&experts=512&top_k=10&shared_experts=1&shared_gate=1&vocab=151936&seq=4096"},
    {"qwen3.5-35b-a3b", "qwen3-next-80b-a3b", "layers=40&ffn=512&experts=256&top_k=8&vocab=248320"},
    {"qwen3.5-122b-a10b", "qwen3.5-35b-a3b", "layers=48&hidden=3072&heads=32&delta_heads=64&ffn=1024&moe_ffn=1024"},
    {"qwen3.5-397b-a17b", "qwen3.5-122b-a10b", "layers=60&hidden=4096&experts=512&top_k=10"},
    {"qwen3.5-27b", "llama",
     "layers=64&hidden=5120&heads=24&kv_heads=4&head_dim=256&rotary=25&theta=10000000&qk_norm=1&attn_gate=1&full_every=4&delta_heads=48&"
     "ffn="
     "17408&vocab=248320&seq=4096"},
    {"mimo-v2-flash", "moe",
     "layers=48&heads=64&kv_heads=4&head_dim=192&value_dim=128&value_scale=707&sinks=2&rotary_dim=64&theta=5000000&window=129&window_every="
     "6&"
     "window_first=1&window_theta=10000&window_kv_heads=8&ffn=16384&moe_ffn=2048&experts=256&top_k=8&dense_layers=1&gate=1&vocab=152576&"
     "seq="
     "4096"},
    {"minimax-m3", "moe",
     "layers=60&hidden=6144&heads=64&kv_heads=4&head_dim=128&rotary_dim=64&theta=5000000&qk_norm=1&index_heads=4&index_block=128&index_top="
     "16&index_from=3&ffn=12288&moe_ffn=3072&experts=128&top_k=4&shared_experts=1&dense_layers=3&gate=1&gate_scale=2000&vocab=200064&seq="
     "4096"},
};

constexpr ZooPreset kGemma[] = {
    {"olmo2-7b", "llama", "vocab=100352&theta=500000&norms=2&qk_norm=2&seq=4096"},
    {"olmo2-13b", "olmo2-7b", "layers=40&hidden=5120&heads=40&ffn=13824"},
    {"gemma-7b", "llama", "layers=28&hidden=3072&heads=16&head_dim=256&ffn=24576&vocab=256000&tied=1&act=1&embed_scale=1&seq=8192"},
    {"gemma-2b", "gemma-7b", "layers=18&hidden=2048&heads=8&kv_heads=1&ffn=16384"},
    {"gemma2-9b", "gemma-7b",
     "layers=42&hidden=3584&kv_heads=8&ffn=14336&norms=1&score_cap=50&logit_cap=30&query_scale=256&window=4096&window_every=2"},
    {"gemma2-2b", "gemma2-9b", "layers=26&hidden=2304&heads=8&kv_heads=4&ffn=9216"},
    {"gemma2-27b", "gemma2-9b", "layers=46&hidden=4608&heads=32&kv_heads=16&head_dim=128&ffn=36864&query_scale=144"},
    {"gemma3-27b", "gemma-7b",
     "layers=62&hidden=5376&heads=32&kv_heads=16&head_dim=128&ffn=21504&vocab=262208&norms=1&qk_norm=1&query_scale=168&window=1024&"
     "window_every=6&theta=1000000&window_theta=10000"},
    {"gemma3-12b", "gemma3-27b", "layers=48&hidden=3840&heads=16&kv_heads=8&head_dim=256&ffn=15360&query_scale=256"},
    {"gemma4-31b", "llama",
     "layers=60&hidden=5376&heads=32&kv_heads=4&head_dim=512&ffn=21504&vocab=262144&tied=1&act=1&embed_scale=1&norms=1&qk_norm=1&v_norm=1&"
     "query_scale=1&logit_cap=30&kv_same=1&rotary_dim=128&rotary_whole=1&theta=1000000&window=1024&window_every=6&window_theta=10000&"
     "window_kv_heads=16&window_head_dim=256&window_rotary_dim=256&seq=8192"},
    {"gemma4-26b-a4b", "moe",
     "layers=30&hidden=2816&heads=16&kv_heads=2&head_dim=512&ffn=2112&moe_ffn=704&experts=128&top_k=8&dense_beside=1&vocab=262144&tied=1&"
     "act=1&embed_scale=1&norms=1&qk_norm=1&v_norm=1&query_scale=1&logit_cap=30&kv_same=1&rotary_dim=128&rotary_whole=1&theta=1000000&"
     "window=1024&window_every=6&window_theta=10000&window_kv_heads=8&window_head_dim=256&window_rotary_dim=256&seq=8192"},
    {"gemma3-4b", "gemma3-12b", "layers=34&hidden=2560&heads=8&kv_heads=4&ffn=10240"},
};

constexpr ZooPreset kMixtures[] = {
    {"mixtral-8x7b", "moe", "seq=4096"},
    {"mixtral-8x22b", "mixtral-8x7b", "layers=56&hidden=6144&heads=48&ffn=16384"},
    {"llama4-maverick", "llama4-scout", "experts=128&moe_every=2&qk_norm=0"},
    {"gpt-oss-120b", "gpt-oss-20b", "layers=36&experts=128"},
    {"glm4.5", "glm4.5-air", "layers=92&hidden=5120&ffn=12288&moe_ffn=1536&experts=160&dense_layers=3&gate_scale=2500&qk_norm=1"},
    {"llama4-scout", "moe",
     "layers=48&hidden=5120&heads=40&ffn=16384&moe_ffn=8192&experts=16&top_k=1&shared_experts=1&gate=2&qk_norm=3&nope_every=4&"
     "vocab=202048&theta=500000&seq=8192"},
    {"gpt-oss-20b", "moe",
     "layers=24&hidden=2880&heads=64&head_dim=64&ffn=2880&qkv_bias=1&o_bias=1&sinks=1&expert_bias=1&window=128&window_every=2&experts=32&"
     "top_k=4&vocab=201088&theta=150000&seq=4096"},
    {"glm4.5-air", "moe",
     "layers=46&heads=96&head_dim=128&rotary=50&ffn=10944&moe_ffn=1408&experts=128&top_k=8&shared_experts=1&dense_layers=1&gate=1&qkv_bias="
     "1&"
     "vocab=151552&seq=4096"},
};

constexpr ZooPreset kDeepSeek[] = {
    {"deepseek-v4-flash", "deepseek-v4", ""},
    {"deepseek-v4-pro", "deepseek-v4",
     "layers=61&first_many=1&hidden=7168&heads=128&q_lora=1536&o_groups=16&index_top=1024&experts=384&moe_ffn=3072&gate_scale=2500"},
    {"deepseek-v3.2", "deepseek-v3", "index_heads=64"},
    {"glm-5", "deepseek-v3",
     "layers=78&hidden=6144&heads=64&ffn=12288&q_lora=2048&nope_dim=192&v_dim=256&theta=1000000&index_heads=32&vocab=154880"},
    {"glm-5.2", "glm-5", "theta=8000000&index_first=3&index_every=4"},
    {"kimi-k2", "deepseek-v3", "heads=64&experts=384&dense_layers=1&gate_scale=2827&vocab=163840&theta=50000"},
    {"deepseek-moe-16b", "moe",
     "layers=28&hidden=2048&heads=16&kv_heads=16&ffn=10944&moe_ffn=1408&experts=64&top_k=6&shared_experts=2&dense_layers=1&gate=3&vocab="
     "102400&theta=10000&seq=4096"},
    {"deepseek-v2-lite", "deepseek-moe-16b", "layers=27&kv_heads=0&kv_lora=512"},
    {"deepseek-v2", "deepseek-v2-lite", "layers=60&hidden=5120&heads=128&ffn=12288&moe_ffn=1536&experts=160&q_lora=1536&gate_scale=16000"},
    {"deepseek-v3", "deepseek-v2",
     "layers=61&hidden=7168&ffn=18432&moe_ffn=2048&experts=256&top_k=8&shared_experts=1&dense_layers=3&gate=1&gate_scale=2500&vocab="
     "129280"},
};

constexpr ZooPreset kHybrids[] = {
    {"nemotron3-nano", "hybrid", "attention_at=280868"},
    {"nemotron3-super", "nemotron3-nano",
     "blocks=40&attention_at=36576495752&hidden=4096&ssm_heads=128&ffn=2688&experts=512&top_k=22&shared_ffn=5376&latent=1024&gate_scale="
     "5000"},
    {"nemotron3-ultra", "nemotron3-super",
     "blocks=48&attention_at=9419167515720&hidden=8192&heads=64&ssm_heads=256&ffn=5120&shared_ffn=10240&latent=2048"},
    {"nemotron-h-56b", "hybrid",
     "blocks=54&attention_at=290554814669064&hidden=8192&heads=64&kv_heads=8&ssm_heads=256&ssm_state=256&ffn=32768&experts=0"},
};

}  // namespace

std::span<const ZooPreset> zoo_presets() {
  static const std::vector<ZooPreset> kRows = [] {
    std::vector<ZooPreset> rows;
    for (const std::span<const ZooPreset> table : std::initializer_list<std::span<const ZooPreset>>{
             kFirstTransformers, kPresetsLlama, kQwen, kGemma, kMixtures, kDeepSeek, kHybrids})
      rows.insert(rows.end(), table.begin(), table.end());
    return rows;
  }();
  return kRows;
}

}  // namespace rehearsal::graph::zoo
