# Conformance of engines: the adapter against what keeps the engine contract.
find_package(PkgConfig REQUIRED)
pkg_check_modules(ENGINE_JANSSON REQUIRED IMPORTED_TARGET jansson)
set(here ${CMAKE_CURRENT_LIST_DIR})
if(NOT BATON_FUZZ)
  # For any running engine; tests/engines uses it for vLLM.
  add_executable(engine_conformance ${here}/engine_conformance.c ${here}/engine_rig.c)
  target_link_libraries(engine_conformance PRIVATE agent_engine baton_options PkgConfig::ENGINE_JANSSON m)

  add_executable(engine_faults ${here}/engine_faults.c ${here}/engine_mini.c ${here}/engine_rig.c)
  target_link_libraries(engine_faults PRIVATE agent_engine baton_options PkgConfig::ENGINE_JANSSON Threads::Threads m)
  add_test(NAME engine_faults COMMAND engine_faults $<TARGET_FILE:miniengine> $<TARGET_FILE:miniengine_seal>
    ${here}/../data/qwen3-tiny/v1 ${here}/../data/qwen3-tiny/v2 $<TARGET_FILE:engine_conformance>)
  set_tests_properties(engine_faults PROPERTIES LABELS conformance TIMEOUT 300)
endif()
