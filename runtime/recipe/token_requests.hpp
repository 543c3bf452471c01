#pragma once

#include "runtime/recipe/api_error.hpp"
#include "runtime/recipe/prepare.hpp"

#include <string>
#include <string_view>

/// Requests that are about tokens and need no model: the tokenizer by itself, over HTTP.
namespace deepinfer::recipe {

/// `POST /tokenize`: `{"prompt"}` or `{"messages", ...}` (any field of Chat Completions), with
/// `model`, `add_special_tokens` (default true: a plain prompt begins as one of `/v1/completions`
/// does) and `return_token_strs`. Gives `{"count","max_model_len","tokens","token_strs"?}`. Client
/// text stays plain: it never yields a control token.
[[nodiscard]] api_result<std::string> tokenize(std::string_view body,
                                               const prompt_reader& reader,
                                               const served_model& model,
                                               const recipe_options& options = {});

/// `POST /detokenize`: `{"tokens":[...]}` with `model`. Gives `{"prompt"}`, control tokens spelled
/// out; an id that is none is a 400.
[[nodiscard]] api_result<std::string> detokenize(std::string_view body,
                                                 const text::tokenizer& tokenizer,
                                                 const served_model& model,
                                                 const recipe_options& options = {});

}  // namespace deepinfer::recipe
