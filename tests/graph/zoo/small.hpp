#pragma once
// A small variant of every model of the zoo: the same structure, quick to build and to train.

#include <map>
#include <string>
#include <string_view>

namespace rehearsal::graph::zoo {

inline std::string small_variant(std::string_view name) {
  static const std::map<std::string, std::string, std::less<>> kSmall{
      {"gpt", "layers=2&hidden=16&heads=2&seq=8&vocab=11"},
      {"gpt-neox", "layers=2&hidden=16&heads=2&seq=8&vocab=11&rotary=50"},
      {"mpt", "layers=2&hidden=16&heads=2&seq=8&vocab=11"},
      {"llama", "layers=2&hidden=16&heads=4&kv_heads=2&ffn=24&seq=8&vocab=11"},
      {"moe", "layers=2&hidden=16&heads=4&kv_heads=2&ffn=12&seq=8&vocab=11&experts=3&top_k=2"},
      {"hybrid",
       "blocks=2&attention_at=1&hidden=16&heads=4&kv_heads=2&head_dim=6&ssm_heads=4&ssm_head_dim=3&ssm_state=5&ssm_groups=2&chunk=4&seq=8&"
       "vocab=11&ffn=7&experts=3&top_k=2&shared_ffn=9"},
      {"deepseek-v4",
       "layers=4&first_many=0&hidden=12&streams=2&sinkhorn=3&heads=4&head_dim=6&rope_dim=2&q_lora=8&o_groups=2&o_lora=5&window=3&few=2&"
       "many=4&"
       "index_heads=3&index_dim=4&index_top=1&experts=3&top_k=2&moe_ffn=7&hash_layers=1&seq=8&vocab=11"},
      {"bert", "layers=2&hidden=16&heads=2&seq=8&vocab=11&positions=16&predictions=5"},
      {"transformer", "enc_layers=1&dec_layers=2&hidden=16&heads=2&ffn=24&enc_seq=7&dec_seq=5&vocab=11"},
      {"t5", "enc_layers=1&dec_layers=2&hidden=16&heads=2&kv_channels=6&ffn=24&enc_seq=7&dec_seq=5&vocab=11"},
      {"transformer-xl", "layers=2&hidden=16&heads=2&ffn=24&seq=6&mem_len=4&vocab=11"},
      {"gnmt", "layers=3&hidden=8&enc_seq=4&dec_seq=3&vocab=11"},
      {"diffusion", "image=8&channels=8&head=4&groups=2&context=6&tokens=3"},
      {"dlrm", "tables=3&rows=7&width=8&dense=4"},
      {"vit", "image=16&patch=4&layers=2&hidden=16&heads=2&classes=7"},
      {"unet2d", "image=32&channels=4"},
      {"unet2d_valid", "image=188&channels=2"},
      {"unet3d", "image=16&channels=3&max_channels=8&depth=2"},
      {"nnunet2d", "image=32&channels=3&max_channels=8&depth=3"},
      {"nnunet3d", "image=16&channels=3&max_channels=8&depth=2"},
      {"ssd300_resnet34", "image=258&classes=4"},
      {"ssd300_resnet50", "image=258&classes=4"},
      {"retinanet_resnet50", "image=64&classes=4"},
      {"retinanet_resnext50", "image=64&classes=4"},
      {"maskrcnn_trunk", "image=64"},
      {"alexnet", "image=63&classes=7"},
      {"inception_v3", "image=75&classes=7"},
      {"xception", "image=71&classes=7"},
      {"swin_tiny", "image=224&classes=7"},
      {"swin_small", "image=224&classes=7"},
      {"swin_base", "image=224&classes=7"},
      {"swin_large", "image=224&classes=7"},
      {"mixer", "image=16&patch=4&layers=2&hidden=16&classes=7"},
      {"amoebanetd", "image=32&layers=3&filters=16&classes=7"},
      {"nasnet_large", "image=32&classes=7"},
      {"unet2d_stacked", "image=32&convolutions=2&channels=4"},
      {"inception_v4", "image=75&classes=7"},
  };
  const auto found = kSmall.find(name);
  return std::string(name) + "?batch=2&" + (found == kSmall.end() ? "image=32&classes=7" : found->second);
}

}  // namespace rehearsal::graph::zoo
