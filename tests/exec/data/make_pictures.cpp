// make_pictures FOLDER COUNT WIDTHxHEIGHT: pictures of two classes as JPEG, whose noise keeps them as large as photographs.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

// libjpeg's header wants the two above.
#include <jpeglib.h>

namespace {

std::vector<unsigned char> noise(unsigned width, unsigned height, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<unsigned char> pixels(3UL * width * height);
  for (std::size_t n = 0; n < pixels.size(); ++n) pixels[n] = static_cast<unsigned char>((n / 7 + seed * 40) % 160 + random() % 64);
  return pixels;
}

std::string jpeg(unsigned width, unsigned height, unsigned seed) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = width, info.image_height = height, info.input_components = 3, info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 75, TRUE);
  jpeg_start_compress(&info, TRUE);
  auto pixels = noise(width, height, seed);
  for (unsigned y = 0; y < height; ++y) {
    JSAMPROW row = pixels.data() + 3UL * width * y;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string all(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return all;
}

}  // namespace

int main(int count, char** words) {
  unsigned width = 0, height = 0;
  if (count != 4 || std::sscanf(words[3], "%ux%u", &width, &height) != 2) {
    std::fputs("make_pictures FOLDER COUNT WIDTHxHEIGHT\n", stderr);
    return 2;
  }
  for (const char* name : {"even", "odd"}) std::filesystem::create_directories(std::filesystem::path(words[1]) / name);
  for (unsigned n = 0; n < static_cast<unsigned>(std::atoi(words[2])); ++n) {
    const auto place = std::filesystem::path(words[1]) / (n % 2 == 0 ? "even" : "odd") / (std::to_string(n) + ".jpg");
    std::ofstream(place, std::ios::binary) << jpeg(width, height, n);
  }
}
