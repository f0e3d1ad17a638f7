# Unit tests of agent/core and of the journal. agent_world: a scripted fleet around the production core.
set(agent_world_sources
  ${CMAKE_CURRENT_LIST_DIR}/agent_world.c ${CMAKE_CURRENT_LIST_DIR}/agent_world_barrier.c
  ${CMAKE_CURRENT_LIST_DIR}/agent_world_controller.c
  ${CMAKE_CURRENT_LIST_DIR}/agent_world_engine.c)
foreach(story barrier drain sleep operate requests hooks swap live join restore out session crash swarm)
  baton_test(agent_${story}_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/agent_${story}_test.c ${agent_world_sources} LIBS agent_core)
endforeach()
foreach(story fleet fleet_barrier fleet_peers fleet_swarm)
  baton_test(agent_${story}_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/agent_${story}_test.c ${CMAKE_CURRENT_LIST_DIR}/agent_fleet.c ${agent_world_sources}
    LIBS agent_core)
endforeach()
baton_test(journal_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_test.c LIBS agent_core)
baton_test(journal_file_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_file_test.c ${CMAKE_SOURCE_DIR}/agent/shell/journal_file.c LIBS agent_core)
baton_fuzz(journal_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/../fuzz/journal_fuzz.c LIBS agent_core)
