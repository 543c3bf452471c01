#pragma once

#include "proto/types/result.hpp"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <string>

/// libfabric objects with owners. A domain must outlive its endpoints and queues, a fabric its
/// domains: order members accordingly.
namespace deepinfer::net {

struct close_fid {
  template <class Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
};
using ofi_fabric = std::unique_ptr<fid_fabric, close_fid>;
using ofi_domain = std::unique_ptr<fid_domain, close_fid>;
using ofi_passive = std::unique_ptr<fid_pep, close_fid>;
using ofi_endpoint = std::unique_ptr<fid_ep, close_fid>;
using ofi_cq = std::unique_ptr<fid_cq, close_fid>;
using ofi_eq = std::unique_ptr<fid_eq, close_fid>;
using ofi_region = std::unique_ptr<fid_mr, close_fid>;

struct free_info {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using ofi_info = std::unique_ptr<fi_info, free_info>;

/// `unreachable`, with libfabric's text for the (negative) return code.
[[nodiscard]] failure ofi_failure(const std::string& what, ssize_t code);

/// Where a node listens or is dialled.
struct socket_address;

/// Opens the provider for FI_EP_MSG with messages and one-sided reads. One look-up per process
/// start: it takes up to 0.6 s.
[[nodiscard]] result<ofi_info> find_provider(const std::string& provider,
                                             const socket_address& listen);
[[nodiscard]] result<ofi_fabric> open_fabric(const fi_info& info);
[[nodiscard]] result<ofi_domain> open_domain(fid_fabric& fabric, fi_info& info);
/// Event and completion queues with a pollable descriptor.
[[nodiscard]] result<ofi_eq> open_event_queue(fid_fabric& fabric);
[[nodiscard]] result<ofi_cq> open_completion_queue(fid_domain& domain, size_t entries);
[[nodiscard]] int wait_descriptor(fid& queue);

/// A copy of `base` that leads to `target`.
[[nodiscard]] ofi_info info_towards(const fi_info& base, const socket_address& target);

/// An endpoint bound to its queues and enabled; `info` is of `info_towards` or of a connection
/// request.
[[nodiscard]] result<ofi_endpoint> open_endpoint(
    fid_domain& domain, fi_info& info, fid_eq& eq, fid_cq& cq, void* context);

}  // namespace deepinfer::net
