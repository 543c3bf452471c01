#include "actors/console/text_table.hpp"

#include <algorithm>
#include <numeric>

namespace deepinfer::view {
namespace {

constexpr size_t gap = 2;  // blanks between columns

std::vector<size_t> natural_widths(const std::vector<column>& columns,
                                   const std::vector<std::vector<cell>>& rows) {
  std::vector<size_t> widths;
  for (const column& c : columns) widths.push_back(display_width(c.title));
  for (const auto& row : rows)
    for (size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i].text));
  return widths;
}

size_t total(const std::vector<size_t>& widths) {
  return widths.empty() ? 0
                        : std::accumulate(widths.begin(), widths.end(), gap * (widths.size() - 1));
}

/// Takes what is too much from the columns that may shrink, the widest first; true if it fits then.
bool shrink(const std::vector<column>& columns, std::vector<size_t>& widths, size_t width) {
  while (total(widths) > width) {
    size_t widest = columns.size();
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool can = columns[i].shrinks_to > 0 && widths[i] > columns[i].shrinks_to;
      if (can && (widest == columns.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == columns.size()) return false;
    const size_t excess = total(widths) - width;
    widths[widest] -= std::min(excess, widths[widest] - columns[widest].shrinks_to);
  }
  return true;
}

/// Removes the column of the highest rank; false if none may go.
bool drop_one(std::vector<column>& columns, std::vector<std::vector<cell>>& rows) {
  const auto least =
      std::max_element(columns.begin(), columns.end(),
                       [](const column& a, const column& b) { return a.rank < b.rank; });
  if (least == columns.end() || least->rank == 0) return false;
  const auto at = least - columns.begin();
  columns.erase(least);
  for (auto& row : rows) row.erase(row.begin() + at);
  return true;
}

}  // namespace

std::vector<std::string> draw_table(std::vector<column> columns,
                                    std::vector<std::vector<cell>> rows,
                                    size_t width,
                                    const palette& colours) {
  std::vector<size_t> widths = natural_widths(columns, rows);
  while (!shrink(columns, widths, width) && drop_one(columns, rows))
    widths = natural_widths(columns, rows);

  std::vector<std::string> lines(1);
  const auto append = [&](std::string& line, size_t i, const cell& c) {
    std::string text = fit(c.text, widths[i], columns[i].side);
    if (i + 1 == columns.size()) text.erase(text.find_last_not_of(' ') + 1);
    if (i > 0) line.append(gap, ' ');
    line += colours.paint(c.how, text);
  };
  for (size_t i = 0; i < columns.size(); ++i) append(lines[0], i, {columns[i].title, tone::bold});
  for (const auto& row : rows) {
    std::string& line = lines.emplace_back();
    for (size_t i = 0; i < columns.size(); ++i) append(line, i, row[i]);
  }
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);  // the gap before an empty last cell
    line = clip(line, width);
  }
  return lines;
}

}  // namespace deepinfer::view
