#pragma once

/// exp and log whose bits do not depend on the C library: a sampled token must be the same on
/// every machine, and libm picks other code paths per instruction set. Only +, -, *, / and exact
/// scaling are used; the error is below 4 units in the last place of double.
namespace deepinfer::model {

/// e^x for x <= 700; below -700 the result is 0.
[[nodiscard]] double portable_exp(double x);

/// Natural logarithm of a normal x > 0.
[[nodiscard]] double portable_log(double x);

}  // namespace deepinfer::model
