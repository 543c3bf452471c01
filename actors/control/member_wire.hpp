#pragma once

#include "proto/wire/cluster.capnp.h"
#include "runtime/policy/membership_table.hpp"

#include <vector>

/// Between `proto/wire/cluster.capnp` and the membership table's plain records.
namespace deepinfer {

void write_record(wire::NodeRecord::Builder out, const policy::member_record& record);
[[nodiscard]] policy::member_record read_record(wire::NodeRecord::Reader in);
/// At most `limits::max_nodes` records, each with at most `limits::max_services_per_node` services;
/// the rest is left out.
[[nodiscard]] std::vector<policy::member_record> read_records(
    capnp::List<wire::NodeRecord>::Reader in);

}  // namespace deepinfer
