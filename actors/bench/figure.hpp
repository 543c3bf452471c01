#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace deepinfer::bench {

/// One line of `deepinfer bench`.
struct figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string ratio_to;  ///< name of the figure it is compared with; empty: none
  double ratio = 0;
  size_t runs = 0;
  double spread = 0;
};

/// The middle one, or the mean of the two in the middle; 0 without values.
[[nodiscard]] double median(std::vector<double> values);
/// The value that `share` (0 to 1) of all values do not exceed.
[[nodiscard]] double quantile(std::vector<double> values, double share);

/// Median of one value a round, and their median absolute deviation.
[[nodiscard]] figure make_figure(std::string name,
                                 std::string unit,
                                 const std::vector<double>& rounds);

/// A figure's rounds to compare with, taken in the same rounds.
struct yardstick {
  std::string name;
  std::vector<double> rounds;
};
/// The same with a ratio: the median of the rounds' own ratios.
[[nodiscard]] figure make_figure(std::string name,
                                 std::string unit,
                                 const std::vector<double>& rounds,
                                 const yardstick& to);

/// {"name","value","unit","ratio_to","ratio","runs","spread"}; without a ratio the two are null.
[[nodiscard]] std::string json_line(const figure& f);

/// For people.
[[nodiscard]] std::string table(const std::vector<figure>& figures);

}  // namespace deepinfer::bench
