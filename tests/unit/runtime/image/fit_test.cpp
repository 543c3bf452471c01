#include "runtime/image/fit.hpp"

#include "tests/support/rng.hpp"
#include "tests/unit/runtime/image/golden_images.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::image;

namespace {

constexpr fit_rules release;
constexpr fit_rules mini{.patch = 4, .merge = 3, .max_tokens = 64, .min_pixels = 256};

}  // namespace

TEST_SUITE("runtime/image") {
  TEST_CASE("published token counts") {
    CHECK(fit_image({544, 544}, release).tokens() == 184);
    CHECK(fit_image({640, 480}, release).tokens() == 206);
    CHECK(fit_image({1024, 1024}, release).tokens() == 652);
    CHECK(fit_image({1920, 1080}, release).tokens() == 968);
    CHECK(fit_image({4000, 3000}, release).tokens() == 1001);
    CHECK(fit_image({100, 2000}, release).tokens() == 234);
    CHECK(fit_image({3, 5000}, release).tokens() == 1024);
  }

  TEST_CASE("each branch of the size rule") {
    // rounded up to whole patches, nothing else
    CHECK(fit_image({640, 480}, release).target == image_size{644, 490});
    // scaled up to the least number of pixels
    CHECK(fit_image({10, 10}, release).target == image_size{546, 546});
    // shrunk to the token budget with its shape kept
    CHECK(fit_image({1920, 1080}, release).target == image_size{1708, 966});
    // narrower than one column, flatter than one row
    CHECK(fit_image({3, 5000}, release).target == image_size{42, 511 * 42});
    CHECK(fit_image({8192, 1}, release).target == image_size{1021 * 42, 42});
    // the first round leaves 14 x 20748, still below the least number of pixels
    CHECK(fit_image({2, 2907}, release).target == image_size{14, 21140});
  }

  TEST_CASE("an image wider than the allowed shape counts as if cut") {
    fit_rules rules = release;
    rules.max_wh_ratio = 2;
    CHECK(fit_image({4000, 500}, rules).target == fit_image({1000, 500}, release).target);
    CHECK(fit_image({1000, 500}, rules).target == fit_image({1000, 500}, release).target);
    CHECK(fit_image({500, 4000}, rules).target == fit_image({500, 4000}, release).target);
  }

  TEST_CASE("the rule agrees with a transcription of the specification") {
    const test::golden_images golden;
    const auto rows = golden.get<int32_t>("fit");
    REQUIRE(rows.size() % 6 == 0);
    for (size_t i = 0; i < rows.size(); i += 6) {
      const image_size size{static_cast<uint32_t>(rows[i + 1]), static_cast<uint32_t>(rows[i + 2])};
      CAPTURE(size.width);
      CAPTURE(size.height);
      const image_fit fit = fit_image(size, rows[i] == 0 ? release : mini);
      CHECK(fit.target.width == static_cast<uint32_t>(rows[i + 3]));
      CHECK(fit.target.height == static_cast<uint32_t>(rows[i + 4]));
      CHECK(fit.tokens() == static_cast<uint64_t>(rows[i + 5]));
    }
  }

  TEST_CASE("any image costs at most the budget and its size stays when fitted again") {
    test::rng random{21};
    for (int round = 0; round < 5000; ++round) {
      const image_size size{1 + random.below(1u << random.below(17)) % 65535,
                            1 + random.below(1u << random.below(17)) % 65535};
      fit_rules rules{.patch = 1 + random.below(20), .merge = 1 + random.below(4)};
      rules.max_tokens = 4 + random.below(2000);
      rules.min_pixels = random.below(500'000);
      CAPTURE(round);
      const image_fit fit = fit_image(size, rules);
      REQUIRE(fit.tokens() <= rules.max_tokens);
      CHECK(fit.patch_rows * rules.patch == fit.target.height);
      CHECK(fit.patch_columns * rules.patch == fit.target.width);
      CHECK(fit.patch_rows > 0);
      CHECK(fit.patch_columns > 0);
      CHECK(fit.token_rows == (fit.patch_rows + rules.merge - 1) / rules.merge);
    }
  }

  TEST_CASE("low detail bounds the longer side and keeps the shape") {
    CHECK(bounded_size({512, 300}, 512) == image_size{512, 300});
    CHECK(bounded_size({1024, 600}, 512) == image_size{512, 300});
    CHECK(bounded_size({600, 1025}, 512) == image_size{299, 512});
    CHECK(bounded_size({8192, 1}, 512) == image_size{512, 1});
  }
}
