#include "actors/messages/errors.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/exit_reason.hpp>
#include <caf/message.hpp>
#include <caf/sec.hpp>

namespace deepinfer {
namespace {

constexpr caf::atom_value system_category = caf::atom("system");
constexpr caf::atom_value exit_category = caf::atom("exit");

std::string detail_of(const caf::message& context) {
  if (context.match_elements<std::string>()) return context.get_as<std::string>(0);
  return context.empty() ? std::string{} : caf::to_string(context);
}

error_code code_of(caf::sec code) {
  switch (code) {
    case caf::sec::request_timeout:
    case caf::sec::connection_timeout:
      return error_code::deadline_exceeded;
    case caf::sec::request_receiver_down:
    case caf::sec::remote_linking_failed:
    case caf::sec::remote_lookup_failed:
    case caf::sec::no_route_to_receiving_node:
    case caf::sec::cannot_connect_to_node:
    case caf::sec::socket_disconnected:
      return error_code::unreachable;
    case caf::sec::unexpected_message:
    case caf::sec::unexpected_response:
    case caf::sec::unsupported_sys_key:
    case caf::sec::unsupported_sys_message:
    case caf::sec::feature_disabled:
      return error_code::unsupported;
    case caf::sec::invalid_argument:
    case caf::sec::unexpected_actor_messaging_interface:
      return error_code::invalid_argument;
    case caf::sec::unavailable_or_would_block:
      return error_code::no_capacity;
    default:
      return error_code::internal;
  }
}

error_code code_of(caf::exit_reason reason) {
  switch (reason) {
    case caf::exit_reason::normal:
    case caf::exit_reason::user_shutdown:
    case caf::exit_reason::kill:
      return error_code::cancelled;
    case caf::exit_reason::unknown:  // ended before anybody asked why
    case caf::exit_reason::remote_link_unreachable:
    case caf::exit_reason::unreachable:
      return error_code::unreachable;
    default:
      return error_code::internal;
  }
}

failure named(error_code code, const std::string& name, const caf::message& context) {
  const std::string more = detail_of(context);
  return {code, more.empty() ? name : name + ": " + more};
}

}  // namespace

caf::error to_caf(const failure& f) {
  const error_code code = f.code == error_code::ok ? error_code::internal : f.code;
  return {static_cast<uint8_t>(code), failure_category, caf::make_message(f.detail)};
}

failure from_caf(const caf::error& e) {
  if (!e) return {error_code::cancelled, "ended normally"};
  if (e.category() == failure_category)
    return {error_code_from_wire(e.code()), detail_of(e.context())};
  if (e.category() == system_category) {
    const auto code = static_cast<caf::sec>(e.code());
    return named(code_of(code), caf::to_string(code), e.context());
  }
  if (e.category() == exit_category) {
    const auto reason = static_cast<caf::exit_reason>(e.code());
    return named(code_of(reason), caf::to_string(reason), e.context());
  }
  return {error_code::internal, caf::to_string(e)};
}

void register_failure_category(caf::actor_system_config& config) {
  config.add_error_category(
      failure_category, [](uint8_t code, caf::atom_value, const caf::message& context) {
        return to_string(failure{error_code_from_wire(code), detail_of(context)});
      });
}

}  // namespace deepinfer
