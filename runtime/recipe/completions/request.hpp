#pragma once

#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/field_reader.hpp"

namespace deepinfer::recipe::completions {

/// The body of `POST /v1/completions`: fills `request`, or says in `error` what is wrong first.
void read(field_reader& body,
          client_request& request,
          const conversion_options& options,
          first_error& error);

}  // namespace deepinfer::recipe::completions
