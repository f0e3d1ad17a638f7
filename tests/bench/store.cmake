# The store in a real etcd, by itself and under a controller.
if(NOT BATON_FUZZ)
  set(here ${CMAKE_CURRENT_LIST_DIR})
  add_executable(store_bench ${here}/store_bench.c ${here}/load_agent.c ${here}/load_message.c ${here}/load_fleet.c
    ${here}/load_controller.c ${here}/load_call.c ${here}/load_samples.c ${here}/ratio.c
    ${here}/../conformance/etcd_rig.c ${here}/../unit/record_filler.c)
  target_link_libraries(store_bench PRIVATE controller_store baton_transport_model baton_rpc baton_wire baton_base
    PkgConfig::RIG_CURL baton_options)
  target_compile_definitions(store_bench PRIVATE LOAD_CONTROLLER="$<TARGET_FILE:baton-controller>")
  add_dependencies(store_bench baton-controller)
endif()
