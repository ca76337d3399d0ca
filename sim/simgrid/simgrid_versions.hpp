#pragma once
// What differs between the versions of SimGrid, from 3.32 on.

// The C headers need what s4u.hpp brings.
// clang-format off
#include <simgrid/s4u.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/version.h>
#include <xbt/log.h>
// clang-format on

namespace rehearsal::sim::compat {

#if SIMGRID_VERSION >= 33400
using Ended = simgrid::s4u::Comm;
inline void on_communication_end(const std::function<void(const Ended&)>& told) { simgrid::s4u::Comm::on_completion_cb(told); }
/// Starts a communication that waits for nothing.
inline void start(simgrid::s4u::Comm& communication) { communication.start(); }
#else
using Ended = simgrid::s4u::Activity;
inline void on_communication_end(const std::function<void(const Ended&)>& told) { simgrid::s4u::Activity::on_completion_cb(told); }
inline void start(simgrid::s4u::Comm& communication) { communication.vetoable_start(); }
#endif

// Nothing is computed on a host and a link gets its bandwidth later, so any speed will do.
#if SIMGRID_VERSION >= 40000
/// A zone belongs to the root that comes with the engine; before 4.0 the first zone was the root.
inline void settle(const simgrid::s4u::Engine& engine, simgrid::kernel::routing::NetZoneImpl& zone) {
  zone.set_parent(engine.get_netzone_root()->get_impl());
}
inline simgrid::s4u::Host* add_host(simgrid::s4u::NetZone& zone, const std::string& name) { return zone.add_host(name, 1e9); }
inline simgrid::s4u::Link* add_link(simgrid::s4u::NetZone& zone, const std::string& name) { return zone.add_link(name, 1.0); }
#else
inline void settle(const simgrid::s4u::Engine&, simgrid::kernel::routing::NetZoneImpl&) {}
inline simgrid::s4u::Host* add_host(simgrid::s4u::NetZone& zone, const std::string& name) { return zone.create_host(name, 1e9); }
inline simgrid::s4u::Link* add_link(simgrid::s4u::NetZone& zone, const std::string& name) { return zone.create_link(name, 1.0); }
#endif

/// Exact seconds = latency + bytes ÷ bandwidth, and max-min fair sharing: no TCP window, no traffic of acknowledgements.
inline void configure(const simgrid::s4u::Engine&) {
  using simgrid::s4u::Engine;
  xbt_log_control_set("root.thres:error");
  Engine::set_config("network/model:CM02");
  Engine::set_config("network/crosstraffic:0");
  Engine::set_config("network/TCP-gamma:1e30");
#if SIMGRID_VERSION >= 33500
  Engine::set_config("precision/timing:1e-12");
  Engine::set_config("precision/work-amount:1e-9");
#else
  Engine::set_config("surf/precision:1e-12");
  Engine::set_config("maxmin/precision:1e-9");
#endif
}

}  // namespace rehearsal::sim::compat
