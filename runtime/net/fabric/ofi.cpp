#include "runtime/net/fabric/ofi.hpp"

#include "runtime/net/fabric/socket_address.hpp"

#include <cstdlib>
#include <cstring>

namespace deepinfer::net {
namespace {

void* copy_bytes(const void* from, size_t count) {
  void* out = std::malloc(count);  // owned by fi_info, which frees it
  DEEPINFER_CHECK(out != nullptr);
  std::memcpy(out, from, count);
  return out;
}

uint32_t format_of(const socket_address& address) {
  return address.storage.ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
}

}  // namespace

failure ofi_failure(const std::string& what, ssize_t code) {
  return {error_code::unreachable, what + ": " + fi_strerror(static_cast<int>(-code))};
}

result<ofi_info> find_provider(const std::string& provider, const socket_address& listen) {
  const ofi_info hints{fi_allocinfo()};
  if (!hints) return failure{error_code::no_capacity, "out of memory"};
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->addr_format = format_of(listen);
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  // what this code can serve; the provider clears what it does not need
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = ::strdup(provider.c_str());
  fi_info* found = nullptr;
  const std::string port = std::to_string(listen.port());
  const int code = fi_getinfo(FI_VERSION(1, 17), listen.host().c_str(), port.c_str(), FI_SOURCE,
                              hints.get(), &found);
  if (code != 0 || found == nullptr)
    return failure{error_code::unsupported, "libfabric provider " + provider +
                                                " is not usable on " + listen.host() + " (" +
                                                fi_strerror(-code) + "): see fi_info -t FI_EP_MSG"};
  return ofi_info{found};
}

result<ofi_fabric> open_fabric(const fi_info& info) {
  fid_fabric* out = nullptr;
  if (const int code = fi_fabric(info.fabric_attr, &out, nullptr); code != 0)
    return ofi_failure("cannot open the fabric", code);
  return ofi_fabric{out};
}

result<ofi_domain> open_domain(fid_fabric& fabric, fi_info& info) {
  fid_domain* out = nullptr;
  if (const int code = fi_domain(&fabric, &info, &out, nullptr); code != 0)
    return ofi_failure("cannot open the domain", code);
  return ofi_domain{out};
}

result<ofi_eq> open_event_queue(fid_fabric& fabric) {
  fi_eq_attr attributes{};
  attributes.wait_obj = FI_WAIT_FD;
  fid_eq* out = nullptr;
  if (const int code = fi_eq_open(&fabric, &attributes, &out, nullptr); code != 0)
    return ofi_failure("cannot open an event queue", code);
  return ofi_eq{out};
}

result<ofi_cq> open_completion_queue(fid_domain& domain, size_t entries) {
  fi_cq_attr attributes{};
  attributes.size = entries;
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = FI_WAIT_FD;
  fid_cq* out = nullptr;
  if (const int code = fi_cq_open(&domain, &attributes, &out, nullptr); code != 0)
    return ofi_failure("cannot open a completion queue", code);
  return ofi_cq{out};
}

int wait_descriptor(fid& queue) {
  int fd = -1;
  return fi_control(&queue, FI_GETWAIT, &fd) == 0 ? fd : -1;
}

ofi_info info_towards(const fi_info& base, const socket_address& target) {
  ofi_info out{fi_dupinfo(&base)};
  DEEPINFER_CHECK(out != nullptr);
  std::free(out->src_addr);
  out->src_addr = nullptr;
  out->src_addrlen = 0;
  std::free(out->dest_addr);
  out->dest_addr = copy_bytes(target.get(), target.length);
  out->dest_addrlen = target.length;
  out->addr_format = format_of(target);
  return out;
}

result<ofi_endpoint> open_endpoint(
    fid_domain& domain, fi_info& info, fid_eq& eq, fid_cq& cq, void* context) {
  fid_ep* raw = nullptr;
  if (const int code = fi_endpoint(&domain, &info, &raw, context); code != 0)
    return ofi_failure("cannot open an endpoint", code);
  ofi_endpoint out{raw};
  int code = fi_ep_bind(raw, &eq.fid, 0);
  if (code == 0) code = fi_ep_bind(raw, &cq.fid, FI_TRANSMIT | FI_RECV);
  if (code == 0) code = fi_enable(raw);
  if (code != 0) return ofi_failure("cannot enable an endpoint", code);
  return out;
}

}  // namespace deepinfer::net
