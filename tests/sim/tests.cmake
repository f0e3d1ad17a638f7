# The simulator: both production cores, unchanged, in worlds on virtual time; and with mutants, in a build of their own.
set(sim_dir ${CMAKE_CURRENT_LIST_DIR})
set(sim_sources
  ${sim_dir}/check.c ${sim_dir}/check_barrier.c ${sim_dir}/check_end.c ${sim_dir}/check_head.c ${sim_dir}/check_model.c ${sim_dir}/check_reason.c ${sim_dir}/check_router.c ${sim_dir}/check_samples.c ${sim_dir}/check_sent.c ${sim_dir}/check_shown.c ${sim_dir}/check_sleep.c ${sim_dir}/check_stale.c ${sim_dir}/check_told.c ${sim_dir}/cover.c ${sim_dir}/cover_list.c ${sim_dir}/delivery.c ${sim_dir}/disk.c ${sim_dir}/engine.c
  ${sim_dir}/exhaust.c ${sim_dir}/head.c ${sim_dir}/main.c ${sim_dir}/mesh.c ${sim_dir}/models.c ${sim_dir}/mutants.c ${sim_dir}/net.c ${sim_dir}/node.c
  ${sim_dir}/packet.c ${sim_dir}/peek.c ${sim_dir}/people.c ${sim_dir}/plan.c ${sim_dir}/router.c ${sim_dir}/samples.c ${sim_dir}/shrink.c ${sim_dir}/torn.c ${sim_dir}/verbs.c ${sim_dir}/world.c)
if(NOT BATON_FUZZ)
  add_executable(sim ${sim_sources})
  target_link_libraries(sim PRIVATE controller_store agent_core baton_options)

  # The cores and what all stores compare once more, with their deliberate faults (api/base/mutant.h) and assertions that can be let pass.
  set(sim_core_sources ${CMAKE_SOURCE_DIR}/controller/store/store.c)
  foreach(core controller agent)
    get_target_property(files ${core}_core SOURCES)
    foreach(file ${files})
      list(APPEND sim_core_sources ${CMAKE_SOURCE_DIR}/${core}/core/${file})
    endforeach()
  endforeach()
  add_library(sim_mutant_cores OBJECT ${sim_core_sources})
  target_compile_options(sim_mutant_cores PRIVATE -include ${sim_dir}/loose.h -Wno-implicit-fallthrough -Wno-return-type)
  target_compile_definitions(sim_mutant_cores PRIVATE BATON_MUTANTS)
  target_link_libraries(sim_mutant_cores PRIVATE baton_options)
  add_executable(sim_mutants ${sim_sources} $<TARGET_OBJECTS:sim_mutant_cores>)
  target_compile_definitions(sim_mutants PRIVATE BATON_MUTANTS)
  target_link_libraries(sim_mutants PRIVATE controller_store baton_options)
endif()
