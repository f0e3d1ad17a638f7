# Unit tests of agent/shell's pieces, without a daemon.
set(here ${CMAKE_CURRENT_LIST_DIR})
foreach(module config peer worker)
  baton_test(agent_shell_${module}_test SOURCES ${here}/agent_shell_${module}_test.c LIBS agent_shell)
endforeach()
if(TARGET agent_shell_peer_test)
  target_compile_definitions(agent_shell_peer_test PRIVATE RPC_CERTS="${here}/rpc_certs.sh")
endif()
foreach(module lander janitor)
  baton_test(agent_shell_${module}_test
    SOURCES ${here}/agent_shell_${module}_test.c ${here}/checkpoint_maker.c LIBS agent_shell)
endforeach()
baton_test(agent_shell_link_test
  SOURCES ${here}/agent_shell_link_test.c ${here}/agent_shell_arrival.c LIBS agent_shell controller_shell)
