#pragma once

#include "actors/console/live_frame.hpp"
#include "proto/types/result.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

/// The terminal this process stands in.
namespace deepinfer {

/// Colours where a person looks: a terminal that is not dumb, and no NO_COLOR.
[[nodiscard]] view::palette palette_for(int descriptor);

/// Columns and rows; what COLUMNS and LINES say, else 80 x 24, where there is no terminal.
[[nodiscard]] view::screen_size screen_size_of(int descriptor);

/// The whole terminal, from `enter` to the end of the object: alternate screen, no echo, keys one
/// by one. However the process ends, the terminal is as before: signals that would end it, and
/// crashes, restore it first. One at a time.
class full_screen {
public:
  static result<std::unique_ptr<full_screen>> enter();
  virtual ~full_screen() = default;

  /// Why `wait` returned.
  struct waking {
    std::string keys;
    bool is_resized = false;
    bool is_ready = false;  ///< `other` can be read
    bool is_over = false;   ///< the terminal is gone, or somebody asked us to end
  };
  /// Until a key, a new size, something to read from `other`, or for `longest`.
  [[nodiscard]] virtual waking wait(int other, std::chrono::milliseconds longest) = 0;
  virtual void draw(const std::vector<std::string>& lines) = 0;
  /// The signal that asked us to end, 0 if none did.
  [[nodiscard]] virtual int ending_signal() const = 0;
};

}  // namespace deepinfer
