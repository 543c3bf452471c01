#include "actors/bench/figure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

namespace deepinfer::bench {
namespace {

/// Six digits, as the measurement is not better than that.
std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const size_t index = std::clamp<size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

figure make_figure(std::string name, std::string unit, const std::vector<double>& rounds) {
  figure out;
  out.name = std::move(name);
  out.unit = std::move(unit);
  out.value = median(rounds);
  out.runs = rounds.size();
  std::vector<double> distances;
  for (const double value : rounds) distances.push_back(std::abs(value - out.value));
  out.spread = median(std::move(distances));
  return out;
}

figure make_figure(std::string name,
                   std::string unit,
                   const std::vector<double>& rounds,
                   const yardstick& to) {
  figure out = make_figure(std::move(name), std::move(unit), rounds);
  out.ratio_to = to.name;
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(rounds.size(), to.rounds.size()); ++i)
    if (to.rounds[i] != 0) ratios.push_back(rounds[i] / to.rounds[i]);
  out.ratio = median(std::move(ratios));
  return out;
}

// Names and units are ours: nothing in them needs an escape.
std::string json_line(const figure& f) {
  const bool compared = !f.ratio_to.empty();
  std::ostringstream out;
  out << R"({"name":")" << f.name << R"(","value":)" << number(f.value) << R"(,"unit":")" << f.unit
      << R"(","ratio_to":)";
  if (compared) {
    out << '"' << f.ratio_to << R"(","ratio":)" << number(f.ratio);
  } else {
    out << R"(null,"ratio":null)";
  }
  out << R"(,"runs":)" << f.runs << R"(,"spread":)" << number(f.spread) << '}';
  return out.str();
}

std::string table(const std::vector<figure>& figures) {
  size_t widest = 0;
  for (const figure& f : figures) widest = std::max(widest, f.name.size());
  std::string text;
  for (const figure& f : figures) {
    text += padded(f.name, widest + 2) + padded(number(f.value), 10) + padded(f.unit, 14);
    text += padded(std::string{"+-"}.append(number(f.spread)), 12) +
            padded(std::to_string(f.runs) + " runs", 9);
    if (!f.ratio_to.empty()) text += number(f.ratio) + "x of " + f.ratio_to;
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace deepinfer::bench
